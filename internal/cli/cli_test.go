package cli_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer/internal/cli"
)

type doCmd struct{ How string }

func (c *doCmd) Run(ctx context.Context, said *strings.Builder) error {
	said.WriteString(c.How)
	switch c.How {
	case "fail":
		return errors.New("it failed")
	case "misuse":
		return cli.UsageError{Err: errors.New("no such file")}
	case "stop":
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return cli.InterruptedOr(ctx, errors.New("cut off"))
	}
	return cli.InterruptedOr(ctx, nil)
}

func TestExitStatuses(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		says   string
	}{
		"do":                {cli.OK, ""},
		"do --how fail":     {cli.Failed, "it failed"},
		"do --how misuse":   {cli.Usage, "no such file"},
		"do --how stop":     {cli.Interrupted, "interrupted"},
		"do --fast":         {cli.Usage, "(see tool do --help)"},
		"dance":             {cli.Usage, "unexpected argument dance"},
		"--help":            {cli.OK, ""},
		"help":              {cli.OK, ""},
		"help do":           {cli.OK, ""},
		"help dance":        {cli.Usage, "unexpected argument dance"},
		"--version":         {cli.OK, ""},
		"completion bash":   {cli.OK, ""},
		"completion ksh":    {cli.Usage, `must be one of "bash","zsh","fish"`},
		"--how fail":        {cli.Failed, "it failed"},
		"--how=fail --fast": {cli.Usage, "--fast"},
	} {
		var commands struct {
			Do doCmd `cmd:"" default:"withargs" help:"Do it (default)."`
			cli.Common
		}
		var said strings.Builder
		var out, err bytes.Buffer
		program := cli.Program{Name: "tool", Commands: &commands}
		assert.Equal(t, want.status, program.Run(t.Context(), strings.Fields(args), &out, &err, &said), args)
		assert.Contains(t, err.String(), want.says, args)
		help := want.status == cli.OK && strings.Contains(args, "help")
		assert.Equal(t, help, strings.Contains(out.String(), "--how"), "%s: %s", args, &out)
		assert.Equal(t, help, strings.HasSuffix(out.String(), "\nExit status: 0 done, 1 failed, 2 used wrongly, 130 interrupted.\n"), args)
		assert.Equal(t, args == "--version", strings.HasPrefix(out.String(), "tool "), args)
	}
}

func TestDisplay_LiveLineIsCutAndErased(t *testing.T) {
	var out bytes.Buffer
	d := cli.NewDisplay(&out)
	assert.False(t, d.Live(), "a buffer is no terminal")
	d.Draw(strings.Repeat("ä", 100))
	d.Logf("a line %s", "that stays")
	d.End()
	assert.Equal(t, "\r"+strings.Repeat("ä", 78)+"…\x1b[K\r\x1b[Ka line that stays\n", out.String())
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := cli.NewScreen(&out)
	assert.False(t, s.Live(), "a buffer is no terminal")
	assert.NoError(t, s.Draw("one\n"+strings.Repeat("ä", 100)+"\n"))
	assert.NoError(t, s.Draw(strings.Repeat("line\n", 30)))
	assert.Equal(t, "\x1b[2J\x1b[Hone\x1b[K\n"+strings.Repeat("ä", 79)+"…\x1b[K\n\x1b[J"+
		"\x1b[H"+strings.Repeat("line\x1b[K\n", 22)+"…\x1b[K\n\x1b[J", out.String())
}
