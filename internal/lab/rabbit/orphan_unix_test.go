//go:build unix

package rabbit_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestNothingIsLeftWhenTheParentIsKilled(t *testing.T) {
	for _, kind := range []string{clusterChild, rabbit.Docker} {
		t.Run(kind, func(t *testing.T) {
			temp := t.TempDir()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childVariable+"="+kind, "TMPDIR="+temp)
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			if reason, none := strings.CutPrefix(line, "none: "); none {
				_ = child.Wait()
				rabbittest.Skipf(t, "%s", reason)
			}
			require.Contains(t, line, "ready:")

			began := processesBelow(t, child.Process.Pid)
			containers := containersOf(t, kind, child.Process.Pid)
			if kind != rabbit.Docker {
				assert.Greater(t, len(began), 4, "the script, epmd, the VM and its helpers")
			} else {
				assert.NotEmpty(t, containers)
			}
			killed := time.Now()
			require.NoError(t, child.Process.Kill())
			_ = child.Wait()

			assert.Eventually(t, func() bool {
				left, err := os.ReadDir(temp)
				return err == nil && len(left) == 0 && noneAlive(began) && len(containersOf(t, kind, child.Process.Pid)) == 0
			}, time.Minute, 50*time.Millisecond, "processes %v, containers %v", began, containers)
			t.Logf("all gone after %v", time.Since(killed))
		})
	}
}

// processesBelow lists the pids of all descendants.
func processesBelow(t *testing.T, root int) []int {
	t.Helper()
	out, err := exec.Command("ps", "-axo", "pid=,ppid=").Output()
	require.NoError(t, err)
	parents := map[int]int{}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		_, err := fmt.Sscan(line, &pid, &parent)
		require.NoError(t, err)
		parents[pid] = parent
	}
	var below []int
	for pid := range parents {
		for p := parents[pid]; p > 1; p = parents[p] {
			if p == root {
				below = append(below, pid)
				break
			}
		}
	}
	return below
}

// noneAlive takes a zombie, which only awaits its parent's attention, for dead.
func noneAlive(pids []int) bool {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) != nil {
			continue
		}
		state, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
		if err == nil && !strings.HasPrefix(string(state), "Z") {
			return false
		}
	}
	return true
}

// containersOf lists the containers that a process has started, running or not.
func containersOf(t *testing.T, kind string, pid int) []string {
	t.Helper()
	if kind != rabbit.Docker {
		return nil
	}
	out, err := exec.Command("docker", "ps", "-aq", "--filter", fmt.Sprintf("label=delayer.pid=%d", pid)).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
