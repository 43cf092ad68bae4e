package main

import (
	"encoding/json"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

func TestOutbox_MigrateRunStatus(t *testing.T) {
	address := postgrestest.URL(t)
	t.Setenv("DELAYER_POSTGRES", address) // which the Delayer's configuration passes over
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\nbinaryladder: {steps: [1s]}\n")

	status, _, stderr := command(t.Context(), t, "outbox", "run", "--config", config)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "delayer outbox migrate")
	status, stdout, stderr := command(t.Context(), t, "outbox", "migrate")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "newest version")

	pool := postgrestest.Pool(t, address)
	in := consume(t, channel(t, url), prefix+"-queue")
	for _, queue := range []string{prefix + "-gone", prefix + "-queue"} {
		require.NoError(t, outbox.Enqueue(t.Context(), pool, "", queue, 0, amqp091.Publishing{Body: []byte("committed")}))
	}
	running := serve(t, "outbox", "run", "--config", config)
	require.Equal(t, "committed", string((<-in).Body))
	running.eventually(t, `delayer_published_total{backend="binaryladder",result="confirmed"} 1`)
	running.eventuallyLike(t, `delayer_published_total{backend="binaryladder",result="unroutable"} [1-9]\d*`) // it is tried again
	running.eventuallyLike(t, `delayer_outbox_messages{state="failed"} \d`)
	require.Equal(t, exitOK, running.stop())
	require.Contains(t, running.logged(), "outbox relay has stopped")

	status, stdout, stderr = command(t.Context(), t, "outbox", "status")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "0 ready, the oldest for 0s; 0 waiting until their delay fits, or held; 1 failed.")
	require.Contains(t, stdout, "queue "+prefix+"-gone")
	require.Contains(t, stdout, "unroutable")

	status, stdout, stderr = command(t.Context(), t, "outbox", "status", "--output", "json")
	require.Equal(t, exitOK, status, stderr)
	var st map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &st))
	require.Equal(t, map[string]any{"ready": 0.0, "oldest_seconds": 0.0, "waiting": 0.0, "failed": 1.0, "failures": st["failures"]}, st)
	failure := st["failures"].([]any)[0].(map[string]any)
	require.Equal(t, prefix+"-gone", failure["routing_key"])
	require.Contains(t, failure["error"], "unroutable")
	require.Contains(t, failure, "next_try")
}
