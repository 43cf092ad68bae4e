package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayer-go/delayer/internal/app/migration/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNew_Refuses(t *testing.T) {
	for line, says := range map[string]string{
		"  \t ": "names no command", `''`: "names no command", `docker "exec`: "closing quote", `rabbitmqctl \`: "escape",
	} {
		_, err := node.New(line)
		require.ErrorContains(t, err, says, line)
	}
}

// script returns a command that is a shell script.
func script(t *testing.T, text string) *node.Control {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rabbitmqctl")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	c, err := node.New(path)
	require.NoError(t, err)
	return c
}

const upLine = "echo node cmFiYml0QGE= up\n" // rabbit@a

func TestNodes_FramedOutput(t *testing.T) {
	c := script(t, "echo 'warning: some locale'; printf 'another '; echo @@delayer-begin@@\n"+upLine+
		"echo @@delayer-end@@; echo ok; echo noise >&2\n")
	nodes, err := c.Nodes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"rabbit@a"}, nodes)
}

func TestNodes_Unreached(t *testing.T) {
	c := script(t, "echo @@delayer-begin@@\n"+upLine+"echo node cmFiYml0QGI= down; echo @@delayer-end@@\n") // rabbit@b
	nodes, err := c.Nodes(t.Context())
	require.ErrorIs(t, err, node.ErrUnreached)
	require.ErrorContains(t, err, "rabbit@b")
	assert.Equal(t, []string{"rabbit@a"}, nodes, "those that answer")
}

func TestRun_Failures(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"status":    {"echo it broke >&2; exit 69", "exit status 69: it broke"},
		"cookie":    {"echo 'Error: invalid Erlang cookie' >&2; exit 69", "the node's Erlang cookie"},
		"rejected":  {"echo ' * Authentication failed (rejected by the remote node), please check the Erlang cookie' >&2; exit 69", "(run it as the user of the node"},
		"down":      {"echo 'Error: unable to perform an operation on node rabbit@x' >&2; exit 69", "start the node"},
		"no marker": {"echo hello", "ends without a result: hello"},
		"no end":    {"echo @@delayer-begin@@; " + upLine, "ends without a result"},
		"no base64": {"echo @@delayer-begin@@; echo node '***' up; echo @@delayer-end@@", "unexpected output"},
		"few words": {"echo @@delayer-begin@@; echo node; echo @@delayer-end@@", "unexpected output"},
		"program":   {"echo @@delayer-begin@@; echo failed Ym9vbQ==; echo @@delayer-end@@", "the program failed on the node: boom"},
		"khepri":    {"echo @@delayer-begin@@; echo failed e2JhZHJwYyx7J0VYSVQnLHtraGVwcmksIjMuMTMuNyJ9fX0=; echo @@delayer-end@@", "a Khepri that is not known here"},
		"bindings":  {"echo @@delayer-begin@@; echo failed e2JhZHJwYyx7J0VYSVQnLGJpbmRpbmdzX2NoYW5nZX19; echo @@delayer-end@@", "its bindings change all the time"},
		"on stdout": {"echo 'Error: this node is not running'; exit 64", "start the node"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := script(t, c.script+"\n").Nodes(t.Context())
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestRun_NoCommand(t *testing.T) {
	c, err := node.New("/nowhere/rabbitmqctl")
	require.NoError(t, err)
	_, err = c.Nodes(t.Context())
	require.ErrorContains(t, err, "/nowhere/rabbitmqctl")
	require.ErrorContains(t, err, "docker exec rabbit rabbitmqctl")
}

// TestRun_Hangs: a command that does not answer is ended with its children.
func TestRun_Hangs(t *testing.T) {
	c := script(t, "sleep 600 & wait\n")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Nodes(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
