package rabbit

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPause_NothingRunsAfterIt: while the processors are busy, SIGSTOP alone takes effect some
// milliseconds later.
func TestPause_NothingRunsAfterIt(t *testing.T) {
	const busy, rounds = 6, 20
	var n *privateNode
	for range busy {
		spin := exec.Command("sh", "-c", "while :; do :; done")
		require.NoError(t, spin.Start())
		t.Cleanup(func() { _ = spin.Process.Kill(); _ = spin.Wait() })
		n = &privateNode{pid: spin.Process.Pid}
	}
	for range rounds {
		require.NoError(t, n.pause(true))
		assert.True(t, isPaused(n.pid))
		require.NoError(t, n.pause(false))
		assert.False(t, isPaused(n.pid))
	}
}
