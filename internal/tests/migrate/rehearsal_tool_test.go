package migrate_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program is the command delayer, built once.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "delayer-rehearsal-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "delayer")
	if said, err := exec.Command("go", "build", "-o", path, "github.com/delayer-go/delayer/cmd/delayer").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, said)
	}
	return path, nil
})

// command is a step of delayer migrate.
func (r *rehearsal) command(step string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	r.Helper()
	path, err := program()
	require.NoError(r, err)
	cmd, said := exec.Command(path, append([]string{"migrate", step, "--config", r.config}, args...)...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// killedStep runs a step, and kills it with SIGKILL in the middle.
func (r *rehearsal) killedStep(step string, args ...string) {
	r.Helper()
	after := r.kills[r.turn%len(r.kills)]
	r.turn++
	cmd, said := r.command(step, args...)
	require.NoError(r, cmd.Start())
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		r.killed++
		return
	}
	r.gap(said.String())
	require.NoError(r, err, "%s %v: %s", step, args, said)
}

// step runs a step twice: it is killed in the middle, and then finishes.
func (r *rehearsal) step(step string, args ...string) {
	r.Helper()
	r.killedStep(step, args...)
	began := time.Now()
	cmd, said := r.command(step, args...)
	for err := cmd.Run(); err != nil; err = cmd.Run() {
		// The broker may take a moment to see that the killed one's connection is gone.
		locked := strings.Contains(said.String(), "another delayer migrate") && time.Since(began) < rehearsalPatience
		require.True(r, locked, "%s %v: %v: %s", step, args, err, said)
		cmd, said = r.command(step, args...)
	}
	r.Logf("%s took %v\n%s", step, time.Since(began).Round(time.Millisecond), said)
	r.gap(said.String())
}

// unroutable sends on what the Delayer could not deliver because it fell due in a gap.
func (r *rehearsal) unroutable() {
	r.Helper()
	path, err := program()
	require.NoError(r, err)
	said, err := exec.Command(path, "unroutable", "retry", "--config", r.config).CombinedOutput()
	require.NoError(r, err, "%s", said)
	r.Logf("unroutable retry: %s", said)
}

var awayFor = regexp.MustCompile(`away for at most (\S+),`)

// gap notes how long an exchange was away, if a step says so.
func (r *rehearsal) gap(said string) {
	if m := awayFor.FindStringSubmatch(said); m != nil {
		d, err := time.ParseDuration(m[1])
		require.NoError(r, err)
		r.away = max(r.away, d)
	}
}

// A bridgeProcess is one that is started again when it ends.
type bridgeProcess struct {
	r    *rehearsal
	kind string
	cmd  *exec.Cmd
	said *bytes.Buffer
}

func (r *rehearsal) startBridge(kind string) *bridgeProcess {
	b := &bridgeProcess{r: r, kind: kind}
	b.start()
	return b
}

func (b *bridgeProcess) start() {
	b.cmd, b.said = b.r.command("bridge", "--exchange", b.r.exchange(b.kind))
	require.NoError(b.r, b.cmd.Start())
}

// kill kills it with SIGKILL, and starts it again.
func (b *bridgeProcess) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	b.r.killed++
	b.start()
}

// stop asks it to end.
func (b *bridgeProcess) stop() {
	assert.NoError(b.r, b.cmd.Process.Signal(syscall.SIGTERM))
	assert.NoError(b.r, b.cmd.Wait(), "%s", b.said)
}
