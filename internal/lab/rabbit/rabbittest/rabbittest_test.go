package rabbittest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrefixIsUniqueAndNoPattern(t *testing.T) {
	t.Run("with/a.name of *#", func(t *testing.T) {
		first, second := Prefix(t), Prefix(t)
		assert.NotEqual(t, first, second)
		assert.NotContains(t, first[:len(first)-1], ".")
		assert.Regexp(t, `^t-[a-z0-9]{8}-[\w-]{1,40}$`, first)
	})
}

func TestSummaryNamesWhatWasSkipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary")
	t.Setenv("DELAYER_TEST_SUMMARY", file)
	require.NoError(t, summarize())
	assert.NoFileExists(t, file, "nothing to say, nothing written")

	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) { Skipf(t, "no %s here.\nmore", "plugin") })
	}
	t.Cleanup(func() { shared.skipped = nil })
	require.NoError(t, summarize())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "rabbittest: skipped: TestSummaryNamesWhatWasSkipped/one, "+
		"TestSummaryNamesWhatWasSkipped/two: no plugin here\n", string(text))
}
