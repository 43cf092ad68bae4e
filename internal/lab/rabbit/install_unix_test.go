//go:build unix

package rabbit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onlyIn makes a folder the one place where programs are looked for.
func onlyIn(t *testing.T, folder string) {
	t.Helper()
	before := serverFolders
	serverFolders = nil
	t.Cleanup(func() { serverFolders = before })
	t.Setenv("PATH", folder)
}

func program(t *testing.T, folder, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"), 0o755))
}

func TestFindInstall(t *testing.T) {
	root := t.TempDir()
	sbin := filepath.Join(root, "sbin")
	onlyIn(t, sbin)
	_, err := findInstall()
	require.ErrorIs(t, err, ErrNone)

	program(t, sbin, "rabbitmq-server")
	_, err = findInstall()
	require.ErrorIs(t, err, ErrNone)
	assert.ErrorContains(t, err, "erl")

	program(t, filepath.Join(root, "erlang", "bin"), "erl")
	program(t, filepath.Join(root, "erlang", "erts-1.2", "bin"), "epmd")
	require.NoError(t, os.Symlink(filepath.Join(root, "erlang", "bin", "erl"), filepath.Join(sbin, "erl")))
	in, err := findInstall()
	require.NoError(t, err, "an epmd that is not in PATH is found beside Erlang")
	assert.Contains(t, in.epmd, "erts-1.2")
	assert.Empty(t, in.ctl)

	program(t, filepath.Join(root, "plugins", "some_plugin-1.0"), "x")
	in, err = findInstall()
	require.NoError(t, err)
	assert.Equal(t, []string{"some_plugin"}, in.available([]string{"some_plugin", "some", "other"}))
}

func TestTheWrapperOfThePackagesIsPassedOver(t *testing.T) {
	folder := t.TempDir()
	onlyIn(t, folder)
	program(t, folder, "rabbitmq-script-wrapper")
	require.NoError(t, os.Symlink("rabbitmq-script-wrapper", filepath.Join(folder, "rabbitmq-server")))
	_, err := findServer()
	require.ErrorIs(t, err, ErrNone)
}

func TestWithoutAnyBrokerTheErrorNamesAllWays(t *testing.T) {
	onlyIn(t, t.TempDir())
	t.Setenv("AMQP_URL", "")
	t.Setenv("DELAYER_BROKER", "")
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	_, err := Start(t.Context(), Options{})
	require.ErrorIs(t, err, ErrNone)
	for _, way := range []string{"export AMQP_URL=", "docker pull rabbitmq:", "make install-rabbitmq"} {
		assert.ErrorContains(t, err, way)
	}
}

func TestANodeThatEndsAtOnceSaysWhy(t *testing.T) {
	folder := t.TempDir()
	onlyIn(t, folder+":/bin:/usr/bin")
	program(t, folder, "rabbitmq-server")
	program(t, folder, "epmd")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rabbitmq-server"),
		[]byte("#!/bin/sh\necho 'erlang: cannot allocate memory' >&2\nexit 1\n"), 0o755))
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("DELAYER_BROKER", "") // the server is a script: nothing is started
	_, err := Start(t.Context(), Options{Choice: Node})
	require.ErrorContains(t, err, "cannot allocate memory")
	assert.False(t, errors.Is(err, ErrNone), "a server that is broken is not one that is missing")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left, "the folder is gone")
}

func TestTheNodesEnvironmentIsItsOwn(t *testing.T) {
	t.Setenv("RABBITMQ_NODENAME", "production@here")
	t.Setenv("ERL_FLAGS", "-name x")
	t.Setenv("AMQP_URL", "amqp://production")
	env := strings.Join(nodeEnvironment("/folder", nodePorts{amqp: 1, distribution: 2, epmd: 3}, ""), "\n")
	assert.NotContains(t, env, "production")
	assert.NotContains(t, env, "ERL_FLAGS")
	assert.Contains(t, env, "HOME=/folder\n")
	assert.Equal(t, 1, strings.Count(env, "HOME="))
}
