package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// plainRetry is a task without the recipe. Celery publishes it again to the exchange that its
// delivery named.
const plainRetry = `
from celery import Task
from tasks import app

@app.task(bind=True, base=Task)
def plain(self, exchange):
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    print(f"{exchange} again", flush=True)
`

// TestServe_Celery: a task of Celery comes to its worker when it is due, and not before: no worker
// holds it. A plain retry arrives where a controller delivers; after a ladder an operator sends it on.
func TestServe_Celery(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
	config := configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {exchanges: [{name: later, to: orders}]}\n", url, prefix))
	s := serve(t, "serve", "--config", config)
	controller := serve(t, "serve", "--config", configFile(t, fmt.Sprintf("url: %s\nprefix: %s.c\nbackend: controller\n"+
		"controller: {wheel: rounds, levels: 5}\nserve: {exchanges: [{name: bills, to: orders}]}\n", url, prefix)))
	for _, exchange := range []string{"orders", "later", "bills"} {
		declared(t, url, exchange)
	}
	modules := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(modules, "plain.py"), []byte(plainRetry), 0o600))

	program := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, python, args...)
		cmd.Dir, cmd.Env = "../../examples/clients/celery", append(environment(t, url, ""), "PYTHONPATH="+modules+":.")
		return cmd
	}
	worker := program("-m", "celery", "--app", "tasks", "worker", "--include", "plain", "--pool", "solo", "--loglevel", "info", "--without-gossip", "--without-mingle")
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
		for {
			select {
			case line := <-lines:
				seen.WriteString(line + "\n")
				if strings.Contains(line, text) {
					return time.Now()
				}
			case <-ctx.Done():
				require.Failf(t, "it never said that", "%q:\n%s", text, &seen)
			}
		}
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
	until("retry: Retry in 2s") // of order 44
	until("retry: Retry in 2s") // of order 45
	for range 4 {               // a task with an ETA would be received at once, and held
		assert.GreaterOrEqual(t, until("] received").Sub(began), delay, "%s", &seen)
	}
	until("] succeeded")
	assert.Equal(t, 7, strings.Count(seen.String(), "] received"), "%s", &seen)
	for _, printed := range []string{"order 42 was not paid", "order 43 was not paid", "order 44 was collected, attempt 2", "order 45 was shipped, attempt 2"} {
		assert.Contains(t, seen.String(), printed)
	}

	said, err = program("-c", `
from plain import plain
for exchange in "later", "bills":
    plain.apply_async([exchange], exchange=exchange, routing_key="tasks", headers={"x-delay": 1000})
`).CombinedOutput()
	require.NoError(t, err, "%s", said)
	until("bills again")
	require.Eventually(t, func() bool {
		status, stdout, stderr := command(ctx, t, "messages", "retry", "--config", config, "--to", "orders")
		require.Equal(t, exitOK, status, stdout+stderr)
		return strings.Contains(stdout, "1 sent")
	}, time.Minute, 100*time.Millisecond)
	until("later again")
	require.Equal(t, exitOK, s.stop())
	require.Equal(t, exitOK, controller.stop())
}
