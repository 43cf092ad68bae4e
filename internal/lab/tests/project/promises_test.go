package project_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/conformance"
)

// TestPromises: each test that docs/reliability.md names exists, and each case of the suite is named.
func TestPromises(t *testing.T) {
	_, tables, there := strings.Cut(read(t, "docs/reliability.md"), "\n## Where each promise is tested\n")
	require.True(t, there)
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| .* \| (.*) \|$`).FindAllStringSubmatch(tables, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named[name[1]] = true
		}
	}
	require.NotEmpty(t, named)
	cases := map[string]bool{}
	for _, c := range conformance.Cases() {
		cases[c.Name] = true
		assert.True(t, named["conformance/"+c.Name], "docs/reliability.md does not name the case %s", c.Name)
	}
	faults := source(t, "internal/lab/faults", "*.go")
	for name := range named {
		if c, is := strings.CutPrefix(name, "conformance/"); is {
			assert.True(t, cases[c], "%s: no such case", name)
		} else if f, is := strings.CutPrefix(name, "faults/"); is {
			assert.True(t, strings.Contains(faults, `Name: "`+f+`"`), "%s: no such fault", name)
		} else if dot := strings.LastIndexByte(name, '.'); assert.Positive(t, dot, name) {
			folder, test := strings.TrimPrefix(name[:dot], "delayer"), name[dot+1:]
			assert.True(t, strings.Contains(source(t, folder, "*_test.go"), "func "+test+"("), "%s: no such test", name)
		}
	}
}

func source(t *testing.T, folder, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, pattern))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
