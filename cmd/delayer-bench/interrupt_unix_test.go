//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// asCommand, set in a child of the tests, makes it the command itself.
const asCommand = "DELAYER_TEST_AS_COMMAND"

// A process that Ctrl-C ends while messages wait has removed what it declared.
func TestCtrlCLeavesNothingInTheBroker(t *testing.T) {
	broker := rabbittest.Broker(t)
	if !broker.Owned() {
		rabbittest.Skipf(t, "the broker at AMQP_URL cannot be asked for what is left")
	}
	cmd := exec.Command(os.Args[0], "--out", t.TempDir(), "--url", broker.URL(),
		"--backend", "binaryladder/source", "--queue-type", "quorum", "--scenario", "accuracy", "--messages", "50",
		"--delays", "1h", "--concurrency", "8")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()

	var said strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "measuring takes about") {
			go interruptWhenDeclared(t, cmd.Process)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, said.String())
	assert.Equal(t, cli.Interrupted, exit.ExitCode(), said.String())
	assert.Contains(t, said.String(), "interrupted")
	assert.NotContains(t, said.String(), "left in the broker")
	assert.Empty(t, benchObjects(t))
}

// interruptWhenDeclared interrupts the process once the broker holds queues of its benchmark.
func interruptWhenDeclared(t *testing.T, process *os.Process) {
	assert.Eventually(t, func() bool { return strings.Contains(benchObjects(t), ".ladder.wait.") },
		time.Minute, 100*time.Millisecond)
	assert.NoError(t, process.Signal(syscall.SIGINT))
}
