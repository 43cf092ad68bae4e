package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer/internal/app/cli"
)

type doCmd struct{ How string }

func (c *doCmd) Run(ctx context.Context, interrupt context.CancelFunc) error {
	switch c.How {
	case "fail":
		return errors.New("it failed")
	case "stop":
		interrupt()
		<-ctx.Done()
		return errors.New("cut off")
	}
	return nil
}

func TestExitStatuses(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		says   string
	}{
		"do":                {cli.OK, ""},
		"do --how fail":     {cli.Failed, "tool do: it failed\n"},
		"do --how stop":     {cli.Interrupted, "tool do: interrupted\n"},
		"do --fast":         {cli.Usage, "(see tool do --help)"},
		"dance":             {cli.Usage, "unexpected argument dance"},
		"--help":            {cli.OK, ""},
		"help":              {cli.OK, ""},
		"help do":           {cli.OK, ""},
		"help dance":        {cli.Usage, "unexpected argument dance"},
		"--version":         {cli.OK, ""},
		"--how fail":        {cli.Failed, "it failed"},
		"--how=fail --fast": {cli.Usage, "--fast"},
	} {
		var commands struct {
			Do doCmd `cmd:"" default:"withargs" help:"Do it (default)."`
			cli.Common
		}
		var out, err bytes.Buffer
		ctx, interrupt := context.WithCancel(t.Context())
		program := cli.Program{Name: "tool", Commands: &commands}
		assert.Equal(t, want.status, program.Run(ctx, strings.Fields(args), &out, &err, interrupt), args)
		interrupt()
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

// TestAgree_NullDevice: it is a character device, and no terminal.
func TestAgree_NullDevice(t *testing.T) {
	null, err := os.Open(os.DevNull)
	assert.NoError(t, err)
	defer null.Close() //nolint:errcheck // nothing was written
	assert.ErrorContains(t, cli.Agree(t.Context(), cli.Streams{In: null, Out: io.Discard}, "Switch it?", "yes", "--yes"), "give --yes to agree")
}
