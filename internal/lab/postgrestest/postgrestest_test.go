package postgrestest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// childVariable makes the test binary start a cluster, say so, and wait to be killed.
const childVariable = "DELAYER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		rabbittest.Main(m, rabbit.Options{})
	}
	_, err := find()
	fmt.Println(err)
	select {}
}

func TestStart_GivenServerDoesNotAnswer(t *testing.T) {
	t.Setenv("POSTGRES_URL", "postgres://someone:s3cret@127.0.0.1:1/db")
	_, err := find()
	require.ErrorContains(t, err, "POSTGRES_URL")
	assert.NotErrorIs(t, err, errNone, "no fallback to another server")
	assert.NotContains(t, err.Error(), "s3cret")
	t.Setenv("POSTGRES_URL", "postgres://someone:s3cret%zz@127.0.0.1:x/db")
	_, err = find()
	require.ErrorContains(t, err, "it looks like postgres://")
	assert.NotContains(t, err.Error(), "s3cret")
}

func TestNothingIsLeftWhenTheParentIsKilled(t *testing.T) {
	URL(t) // skips where there is no PostgreSQL
	if os.Getenv("POSTGRES_URL") != "" {
		rabbittest.Skipf(t, "the server is not ours")
	}
	temp := t.TempDir()
	// The server's user must get there, whoever runs the tests.
	for _, folder := range []string{temp, temp + "/.."} {
		require.NoError(t, os.Chmod(folder, 0o777))
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=postgres", "TMPDIR="+temp)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, ", private cluster")
	require.NoError(t, child.Process.Kill())
	var exit *exec.ExitError
	require.True(t, errors.As(child.Wait(), &exit))
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(temp)
		return err == nil && len(left) == 0
	}, time.Minute, 50*time.Millisecond)
}
