package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestStatus is what an operator sees, and a script.
func TestStatus(t *testing.T) {
	t.Parallel()
	b, queue := rabbittest.Broker(t), rabbittest.Prefix(t)
	prefix := rabbittest.Prefix(t)
	config := configFile(t, "url: "+b.URL()+"\nprefix: "+prefix+"\nbinaryladder: {steps: [1s, 2s, 4s]}\n")
	look := func(args ...string) (int, string, string) {
		return command(t.Context(), t, append([]string{"status", "--config", config}, args...)...)
	}
	code, stdout, stderr := look()
	require.Equal(t, exitFailed, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "delayer status: look at prefix "+prefix+": not found: nothing of it is at amqp://")

	code, stdout, stderr = command(t.Context(), t, "topology", "apply", "--config", config)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "declared queue \""+prefix+".ladder.wait.1s\"\n")
	code, stdout, _ = command(t.Context(), t, "topology", "apply", "--config", config, "--output", "json")
	require.Equal(t, exitOK, code)
	require.JSONEq(t, `{"created": []}`, stdout)

	watch := serve(t, "status", "--config", config, "--watch", "--every", "100ms") // for Prometheus
	watch.eventually(t, `delayer_messages{prefix="`+prefix+`",state="waiting"} 0`)
	require.NoError(t, rabbittest.Cut(t.Context(), b, "delayer "+prefix))
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		status, body := watch.get(t, "/readyz")
		require.Equal(t, http.StatusOK, status, body)
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, exitOK, watch.stop())
	ch := channel(t, b.URL())
	consume(t, ch, queue)
	require.NoError(t, ch.PublishWithContext(t.Context(), "", prefix+".unroutable", true, false, amqp091.Publishing{}))
	require.Eventually(t, func() bool {
		code, stdout, stderr = look("--fail-if", "waiting>0", "--fail-if", "unroutable>0")
		return code == exitFailed
	}, time.Minute, 100*time.Millisecond)
	require.Contains(t, stdout, "binaryladder: 0 messages wait in 0 of 3 queues")
	require.Equal(t, "delayer status: unroutable>0: unroutable is 1\n", stderr)
	code, _, stderr = look("--fail-if", "policies>0")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "policies>0: policies is not known (not known: policies, bindings that go around delayer serve, parked messages, queues of other configurations: no management API is given")
	code, stdout, _ = look("--output", "json", "--parked", queue)
	require.Equal(t, exitOK, code)
	var report struct {
		Delayer, Prefix string
		Waiting         int
		Backends        []struct{ Queues []struct{ Queue string } }
		Unroutable      struct{ Messages int }
		Policies        []string
		Unknown         []struct{ What, Why string }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Equal(t, 1, report.Unroutable.Messages)
	require.Equal(t, prefix+".ladder.wait.1s", report.Backends[0].Queues[0].Queue)
	require.Contains(t, stdout, `"policies": null`)
	require.Equal(t, "policies", report.Unknown[0].What)

	remove := func(args ...string) (int, string, string) {
		return command(t.Context(), t, append([]string{"topology", "remove", "--config", config}, args...)...)
	}
	code, _, stderr = remove()
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "messages: 1, in "+prefix+".unroutable (1)")
	code, _, stderr = remove("--force")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "give --prefix with the name of the prefix to agree")
	code, stdout, stderr = remove("--force", "--prefix", prefix)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "prefix "+prefix+": the exchanges and queues of backend binaryladder are deleted\n", stdout)
}
