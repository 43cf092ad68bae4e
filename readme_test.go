package delayer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme_Example: the program that a reader copies is examples/first, which
// internal/lab/tests/project runs.
func TestReadme_Example(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("examples/first/main.go")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(source), "\npackage main\n")
	require.Contains(t, string(readme), "```go\npackage main\n"+program+"```\n")
}
