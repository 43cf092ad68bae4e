package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestServe_Celery: a task of Celery comes to its worker when it is due, and not before: no worker
// holds it.
func TestServe_Celery(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var python string
	for _, by := range pythons {
		if exec.CommandContext(ctx, by, "-c", "import celery").Run() == nil {
			python = by
			break
		}
	}
	if python == "" {
		rabbittest.Skipf(t, "there is no Python with Celery here (make install-clients)")
	}
	url, prefix := vhost(t, rabbittest.Broker(t)), rabbittest.Prefix(t)
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {exchanges: [{name: orders, to: orders.delivery}]}\n", url, prefix)))
	declared(t, url, "orders.delivery")

	program := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, python, args...)
		cmd.Dir, cmd.Env = "../../examples/clients/celery", append(environment(t, url, ""), "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	}
	worker := program("-m", "celery", "--app", "tasks", "worker", "--pool", "solo", "--loglevel", "info", "--without-gossip", "--without-mingle")
	printed, out := io.Pipe()
	worker.Stdout, worker.Stderr = out, out
	require.NoError(t, worker.Start())
	lines := make(chan string)
	go func() {
		defer close(lines)
		for text := bufio.NewScanner(printed); text.Scan(); {
			lines <- text.Text()
		}
	}()
	var seen strings.Builder
	until := func(text string) time.Time {
		t.Helper()
		for line := range lines {
			seen.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return time.Now()
			}
		}
		require.Failf(t, "it has ended, and never said that", "%q:\n%s", text, &seen)
		return time.Time{}
	}
	t.Cleanup(func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		go func() { _ = worker.Wait(); _ = out.Close() }()
		for range lines { // until it has ended
		}
	})
	until(" ready.")

	began := time.Now()
	said, err := program("remind.py").CombinedOutput()
	require.NoError(t, err, "%s", said)
	const delay = 2 * time.Second
	until("order 41 was not paid")
	until("retry: Retry in 0s") // of order 43
	for range 2 {               // a task with an ETA would be received at once, and held
		assert.GreaterOrEqual(t, until("] received").Sub(began), delay, "%s", &seen)
	}
	until("] succeeded")
	assert.Equal(t, 4, strings.Count(seen.String(), "] received"), "%s", &seen)
	assert.Contains(t, seen.String(), "order 42 was not paid")
	assert.Contains(t, seen.String(), "order 43 was collected, attempt 2")
	require.Equal(t, exitOK, s.stop())
}
