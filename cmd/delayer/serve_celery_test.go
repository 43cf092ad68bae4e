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

// A celery has a worker of the tasks of a module, and what the worker has said up to now.
type celery struct {
	*testing.T
	ctx    context.Context
	python string
	env    []string
	lines  <-chan string
	seen   strings.Builder
}

// newCelery starts a worker with the broker at url. modules are folders to import from.
func newCelery(t *testing.T, url, app, include string, modules ...string) *celery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := &celery{T: t, ctx: ctx, env: append(environment(t, url, ""), "PYTHONPATH="+strings.Join(modules, ":"))}
	for _, by := range pythons {
		if c.python == "" && exec.CommandContext(ctx, by, "-c", "import celery").Run() == nil {
			c.python = by
		}
	}
	if c.python == "" {
		rabbittest.Skipf(t, "there is no Python with Celery here (make install-clients)")
	}
	worker := c.program("-m", "celery", "--app", app, "worker", "--include", include, "--pool", "solo", "--loglevel", "info", "--without-gossip", "--without-mingle")
	printed, out := io.Pipe()
	worker.Stdout, worker.Stderr = out, out
	require.NoError(t, worker.Start())
	lines := make(chan string)
	c.lines = lines
	go func() {
		defer close(lines)
		for text := bufio.NewScanner(printed); text.Scan(); {
			lines <- text.Text()
		}
	}()
	t.Cleanup(func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		go func() { _ = worker.Wait(); _ = out.Close() }()
		for range lines { // until it has ended
		}
	})
	c.until(" ready.")
	return c
}

func (c *celery) program(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.ctx, c.python, args...)
	cmd.Env = c.env
	return cmd
}

// run runs a program to its end.
func (c *celery) run(args ...string) {
	c.Helper()
	said, err := c.program(args...).CombinedOutput()
	require.NoError(c, err, "%s", said)
}

// until waits for the worker to say something, and returns when it did.
func (c *celery) until(text string) time.Time {
	c.Helper()
	for {
		select {
		case line := <-c.lines:
			c.seen.WriteString(line + "\n")
			if strings.Contains(line, text) {
				return time.Now()
			}
		case <-c.ctx.Done():
			require.Failf(c, "it never said that", "%q:\n%s", text, &c.seen)
		}
	}
}

// all waits until the worker has said all of this.
func (c *celery) all(texts ...string) {
	c.Helper()
	for _, text := range texts {
		if !strings.Contains(c.seen.String(), text) {
			c.until(text)
		}
	}
}

const celeryTasks = "../../examples/clients/celery"

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
	c := newCelery(t, url, "tasks", "plain", modules, celeryTasks)

	began := time.Now()
	c.run(celeryTasks + "/remind.py")
	const delay = 2 * time.Second
	c.until("order 41 was not paid")
	c.until("retry: Retry in 2s") // of order 44
	c.until("retry: Retry in 2s") // of order 45
	for range 4 {                 // a task with an ETA would be received at once, and held
		assert.GreaterOrEqual(t, c.until("] received").Sub(began), delay, "%s", &c.seen)
	}
	c.until("] succeeded")
	assert.Equal(t, 7, strings.Count(c.seen.String(), "] received"), "%s", &c.seen)
	c.all("order 42 was not paid", "order 43 was not paid", "order 44 was collected, attempt 2", "order 45 was shipped, attempt 2")

	c.run("-c", `
from plain import plain
for exchange in "later", "bills":
    plain.apply_async([exchange], exchange=exchange, routing_key="tasks", headers={"x-delay": 1000})
`)
	c.until("bills again")
	require.Eventually(t, func() bool {
		status, stdout, stderr := command(c.ctx, t, "messages", "retry", "--config", config, "--to", "orders")
		require.Equal(t, exitOK, status, stdout+stderr)
		return strings.Contains(stdout, "1 sent")
	}, time.Minute, 100*time.Millisecond)
	c.until("later again")
	require.Equal(t, exitOK, s.stop())
	require.Equal(t, exitOK, controller.stop())
}

// unmodified is an application for the plugin, and what starts its tasks.
const unmodified, startUnmodified = `
import os
from celery import Celery
from kombu import Exchange, Queue

app = Celery("unmodified", broker=os.environ["AMQP_URL"])
orders = Exchange("orders", type="x-delayed-message", arguments={"x-delayed-type": "direct"})
app.conf.task_queues = [Queue("tasks", orders, routing_key="tasks")]
app.conf.task_default_queue = "tasks"
app.conf.task_default_exchange = "orders"
app.conf.task_default_routing_key = "tasks"

@app.task
def remind(order):
    print(f"order {order} was not paid", flush=True)

@app.task(bind=True)
def collect(self, order):
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    print(f"order {order} was collected", flush=True)

@app.task(bind=True, autoretry_for=(ConnectionError,), retry_kwargs={"countdown": 1})
def ship(self, order):
    if self.request.retries == 0:
        raise ConnectionError("the carrier does not answer")
    print(f"order {order} was shipped", flush=True)
`, `
from datetime import datetime, timedelta, timezone
from unmodified import app, collect, remind, ship
app.conf.broker_transport_options = {"confirm_publish": True}
for order, task in (42, remind), (43, collect), (44, ship):
    task.apply_async([order], headers={"x-delay": 1000})
remind.apply_async([45], countdown=1)
remind.apply_async([46], eta=datetime.now(timezone.utc) + timedelta(seconds=1))
`

// TestServe_CeleryUnmodified: an application of Celery for the plugin runs through the proxy as it is.
// What it delays by a header waits in the broker, and its retries arrive.
func TestServe_CeleryUnmodified(t *testing.T) {
	t.Parallel()
	url := vhost(t, rabbittest.Broker(t))
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf("url: %s\nprefix: %s\nbackend: controller\n"+
		"controller: {wheel: rounds, levels: 5}\nserve: {amqp: {listen: 127.0.0.1:0}}\n", url, rabbittest.Prefix(t))))
	modules := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(modules, "unmodified.py"), []byte(unmodified), 0o600))
	c := newCelery(t, throughProxy(t, s, url), "unmodified", "unmodified", modules)

	began := time.Now()
	c.run("-c", startUnmodified)
	c.until("] received") // one with a countdown or an ETA: the worker holds those
	c.until("] received")
	assert.GreaterOrEqual(t, c.until("] received").Sub(began), time.Second, "%s", &c.seen)
	c.all("order 42 was not paid", "order 43 was collected", "order 44 was shipped", "order 45 was not paid", "order 46 was not paid")
}
