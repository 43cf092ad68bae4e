package delayer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadmeShowsTheExample: the code that a reader copies is the body of Example, which runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found, "README.md has no Go code")
	shown, _, _ := strings.Cut(rest, "```")

	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, rest, _ = strings.Cut(string(source), "func Example() {\n")
	body, _, _ := strings.Cut(rest, "\n}\n")
	runs := strings.NewReplacer(
		"URL: url", `URL: "amqp://guest:guest@localhost:5672/"`,
		"ctx, orders,", `ctx, "orders",`,
		", delay,", ", 30*time.Minute,",
	).Replace(strings.ReplaceAll(body, "\n\t", "\n"))
	require.Equal(t, strings.TrimPrefix(runs, "\t")+"\n", shown)
}
