package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachine(t *testing.T) {
	m := machine()
	require.Equal(t, runtime.NumCPU(), m.CPUs)
	require.Positive(t, m.SyncMS)
	all, stolen := ticks()
	if runtime.GOOS != "linux" {
		require.Zero(t, all)
		return
	}
	require.Contains(t, m.Kernel, "Linux ")
	require.Greater(t, all, stolen)
	after, _ := ticks()
	require.GreaterOrEqual(t, after, all)
}
