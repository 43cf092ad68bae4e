//go:build unix

package rabbit_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestFiles: a broker may open more files than a shell's usual 1,024, as far as the machine lets
// it.
func TestFiles(t *testing.T) {
	const few, enough = 1024, 65536
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	if was.Max <= few {
		rabbittest.Skipf(t, "this machine lets no process open more files")
	}
	lower := was
	lower.Cur = few
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower))
	t.Cleanup(func() { assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)) })
	eachKind(t, rabbit.Options{}, func(t *testing.T, b *rabbit.Broker) {
		out, err := b.Ctl(t.Context(), "eval", `list_to_integer(string:trim(os:cmd("ulimit -Sn"))).`)
		require.NoError(t, err)
		limit, err := strconv.ParseUint(strings.TrimSpace(out), 10, 64)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, limit, min(enough, was.Max))
	})
}
