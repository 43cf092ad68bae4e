package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const (
	exitOK          = cli.OK
	exitFailed      = cli.Failed
	exitUsage       = cli.Usage
	exitInterrupted = cli.Interrupted
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // these tests wait more than they compute; -parallel overrides it
	rabbittest.Main(m, withPlugin)
}

// withPlugin is a broker on which `delayer migrate` finds something to do. What was on its way to a
// queue at the moment that this was deleted comes again after ten seconds, not three minutes.
var withPlugin = rabbit.Options{
	Plugins: []string{rabbittest.DelayedMessages, "rabbitmq_management"},
	Args:    rabbit.DeadLetterRetry(10 * time.Second),
}

// vhost makes a virtual host for a test of names without a prefix, and returns its address.
func vhost(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	name := rabbittest.Prefix(t)
	at, err := url.Parse(b.URL())
	require.NoError(t, err)
	for _, args := range [][]string{{"add_vhost", name}, {"set_permissions", "-p", name, at.User.Username(), ".*", ".*", ".*"}} {
		_, err := b.Ctl(t.Context(), args...)
		require.NoError(t, err)
	}
	at.Path = "/" + name
	return at.String()
}

// command runs the command line.
func command(ctx context.Context, t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(ctx, args, strings.NewReader("from stdin"), &out, &errs)
	return status, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"help"}, {"help", "send"}, {"--version"}} {
		status, stdout, stderr := command(t.Context(), t, args...)
		assert.Equal(t, exitOK, status, args)
		assert.Contains(t, stdout, "delayer", args)
		assert.Empty(t, stderr, args)
	}
}

// TestHelp_Examples: each is for a command that there is, and is taken by it.
func TestHelp_Examples(t *testing.T) {
	for name, list := range examples {
		status, stdout, stderr := command(t.Context(), t, append(strings.Fields(name), "--help")...)
		require.Equal(t, exitOK, status, stderr)
		require.Contains(t, stdout, "\nExamples:\n")
		for _, line := range list {
			require.Contains(t, stdout, "\n  "+line+"\n", name)
			args := strings.Fields(line)
			require.Equal(t, "delayer", args[0])
			require.True(t, args[1] == "help" || strings.HasPrefix(strings.Join(args[1:], " "), name), line)
			exited := false
			parser, err := program().Parser(io.Discard, io.Discard, func(int) { exited = true })
			require.NoError(t, err)
			if args[1] == "help" {
				args = append(args[1:], "--help")
			}
			_, err = parser.Parse(args[1:])
			require.True(t, err == nil || exited, "%s: %v", line, err)
		}
	}
	_, stdout, _ := command(t.Context(), t, "--help")
	for _, group := range []string{"Send:", "Look after:", "Keep running:", "Migrate:", "Other:"} {
		require.Contains(t, stdout, "\n"+group+"\n")
	}
}
