package rabbit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/process"
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
			require.Contains(t, line, "ready")

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
				return err == nil && len(left) == 0 && !slices.ContainsFunc(began, isAlive) &&
					len(containersOf(t, kind, child.Process.Pid)) == 0
			}, time.Minute, 50*time.Millisecond, "processes %v, containers %v", began, containers)
			t.Logf("all gone after %v", time.Since(killed))
		})
	}
}

// processesBelow lists all descendants.
func processesBelow(t *testing.T, root int) []*process.Process {
	t.Helper()
	p, err := process.NewProcess(int32(root))
	require.NoError(t, err)
	all := []*process.Process{p}
	for i := 0; i < len(all); i++ {
		children, _ := all[i].Children() // an error where there are none
		all = append(all, children...)
	}
	return all[1:]
}

// isAlive takes a zombie, which only awaits its parent's attention, for dead.
func isAlive(p *process.Process) bool {
	state, err := p.Status()
	return err == nil && !slices.Contains(state, process.Zombie)
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

// childVariable makes the test binary start a broker of the kind it names, say so, and wait to be
// killed.
const childVariable = "DELAYER_TEST_CHILD"

func childMain() bool {
	kind := os.Getenv(childVariable)
	if kind == "" {
		return false
	}
	err := startChild(kind)
	if errors.Is(err, rabbit.ErrNone) {
		fmt.Println("none:", err)
		return true
	}
	if err != nil {
		fmt.Println("failed:", err)
		return true
	}
	fmt.Println("ready")
	select {}
}

// clusterChild is the kind of a child that starts a cluster.
const clusterChild = "cluster"

func startChild(kind string) (err error) {
	if kind == clusterChild {
		_, err = rabbit.StartCluster(context.Background(), rabbit.Options{}, 2)
	} else {
		_, err = rabbit.Start(context.Background(), rabbit.Options{Choice: kind})
	}
	return err
}
