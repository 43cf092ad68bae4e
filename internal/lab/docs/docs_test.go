package docs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "# Page\n\nText, and\n    no block.\n\n    delayer send --body 'a b' # why\n    cat\n\n" +
	"```go\ndelayer x\n```\n\n```\n$ X=1 delayer topology verify \\\n    --output json | jq\ndelayer send: no broker\n" +
	"go run ./cmd/delayer help\n```\n\n```sh\ndelayer-bench --quick\n```\n"

func TestBlocks(t *testing.T) {
	require.Equal(t, []Block{
		{Text: "delayer send --body 'a b' # why\ncat\n"},
		{Lang: "go", Text: "delayer x\n"},
		{Text: "$ X=1 delayer topology verify \\\n    --output json | jq\ndelayer send: no broker\n" +
			"go run ./cmd/delayer help\n"},
		{Lang: "sh", Text: "delayer-bench --quick\n"},
	}, Blocks(page))
}

func TestCommands(t *testing.T) {
	require.Equal(t, [][]string{{"send", "--body", "a b"}, {"topology", "verify", "--output", "json"}, {"help"}}, Commands(page, "delayer"))
	require.Equal(t, [][]string{{"--quick"}}, Commands(page, "delayer-bench"))
}
