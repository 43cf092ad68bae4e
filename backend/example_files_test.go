package backend_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
)

// TestParse_ExampleFiles: they name every key, so that they are a reference, and change nothing.
func TestParse_ExampleFiles(t *testing.T) {
	want := backend.Default()
	want.URL = "amqp://guest:guest@localhost:5672/"
	for _, name := range []string{"testdata/delayer.yaml", "testdata/delayer.json"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		cfg, err := backend.Parse(strings.NewReader(string(text)))
		require.NoError(t, err, name)
		require.Equal(t, want, cfg, name)
		if strings.HasSuffix(name, ".yaml") {
			docs, err := os.ReadFile("../docs/choosing.md")
			require.NoError(t, err)
			require.Contains(t, string(docs), "```yaml\n"+string(text)+"```", "docs/choosing.md shows the file")
		}
	}
}
