package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
)

func TestTable(t *testing.T) {
	var b strings.Builder
	table := cli.NewTable("NAME", "", "LAST")
	assert.Zero(t, table.Rows())
	table.Add("müßig", "", "not padded")
	table.Add("b", "", "x")
	require.NoError(t, table.Write(&b))
	assert.Equal(t, "NAME     LAST\nmüßig    not padded\nb        x\n", b.String())
	assert.Equal(t, 2, table.Rows())
}

// TestShown_Terminal: no name, error or body steers a terminal.
func TestShown_Terminal(t *testing.T) {
	const steering = "a\x1b[31m\u009b2J\u202e\xff\tb\nc"
	assert.Equal(t, `"a\x1b[31m\u009b2J\u202e\xff\tb\nc"`, cli.Shown(steering))
	assert.Equal(t, `a\x1b[31m\u009b2J\u202e�\tb\nc`, cli.Plain(steering, ""))
	assert.Equal(t, "a\\x1b[31m\\u009b2J\\u202e�\tb\nc", cli.Plain(steering, "\n\t"))
	assert.Equal(t, "-", cli.Brief(""))
	assert.Equal(t, strings.Repeat("ä", 59)+"…", cli.Brief(strings.Repeat("ä", 61)))
	assert.Equal(t, strings.Repeat("ä", 60), cli.Brief(strings.Repeat("ä", 60)))
}
