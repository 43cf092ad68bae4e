package migrate_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kills are after how long steps are killed, in turn.
var kills = []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}

// build builds the command delayer.
func build(t testing.TB) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "delayer")
	said, err := exec.Command("go", "build", "-o", program, "github.com/delayer-go/delayer/cmd/delayer").CombinedOutput()
	require.NoError(t, err, "%s", said)
	return program
}

// command is a step of delayer migrate.
func (r *rehearsal) command(step string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	r.Helper()
	cmd, said := exec.Command(r.program, append([]string{"migrate", step, "--config", r.config}, args...)...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// killedStep runs a step, and kills it with SIGKILL in the middle.
func (r *rehearsal) killedStep(step string, args ...string) {
	r.Helper()
	after := kills[r.turn%len(kills)]
	r.turn++
	cmd, said := r.command(step, args...)
	require.NoError(r, cmd.Start())
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		return
	}
	require.NoError(r, err, "%s %v: %s", step, args, said)
}

// step runs a step twice: it is killed in the middle, and then finishes.
func (r *rehearsal) step(step string, args ...string) {
	r.Helper()
	r.killedStep(step, args...)
	r.wholeStep(step, args...)
}

// wholeStep runs a step to its end, and returns what it says.
func (r *rehearsal) wholeStep(step string, args ...string) string {
	r.Helper()
	said, err := r.tryStep(step, args...)
	require.NoError(r, err, "%s %v: %s", step, args, said)
	return said
}

// tryStep is a wholeStep that may fail.
func (r *rehearsal) tryStep(step string, args ...string) (said string, err error) {
	r.Helper()
	began := time.Now()
	cmd, out := r.command(step, args...)
	err = cmd.Run()
	r.Logf("%s took %v\n%s", step, time.Since(began).Round(time.Millisecond), out)
	return out.String(), err
}

// A serveProcess is one that is started again when it ends.
type serveProcess struct {
	r    *rehearsal
	cmd  *exec.Cmd
	said *bytes.Buffer
}

func (r *rehearsal) startServe() *serveProcess {
	s := &serveProcess{r: r}
	s.start()
	return s
}

func (s *serveProcess) start() {
	s.cmd, s.said = exec.Command(s.r.program, "serve", "--config", s.r.config), &bytes.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	require.NoError(s.r, s.cmd.Start())
	child := s.cmd.Process
	s.r.Cleanup(func() { _ = child.Kill() }) // where the test ends before
}

// kill kills it with SIGKILL, and starts it again.
func (s *serveProcess) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.start()
}

// stop asks it to end.
func (s *serveProcess) stop() {
	assert.NoError(s.r, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.NoError(s.r, s.cmd.Wait(), "%s", s.said)
	s.r.Logf("serve\n%s", s.said)
}
