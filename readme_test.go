package delayer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme_Example: the code that a reader copies is the body of Example, which
// internal/lab/tests/project runs.
func TestReadme_Example(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found, "README.md has no Go code")
	shown, _, _ := strings.Cut(rest, "```")

	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, rest, _ = strings.Cut(string(source), "func Example() {\n")
	body, _, _ := strings.Cut(rest, "\n}\n")
	body = strings.ReplaceAll(strings.TrimPrefix(body, "\t"), "\n\t", "\n")
	require.Equal(t, body+"\n", shown)
}
