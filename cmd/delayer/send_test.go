package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// configFile writes a configuration into a folder of the test's own.
func configFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "delayer.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// channel is a channel to the broker at url that ends with the test.
func channel(t testing.TB, url string) *amqp091.Channel {
	t.Helper()
	return rabbittest.NewRigAt(t, nil, url).Ch
}

var consume = rabbittest.Arrivals

// holds waits until a queue has so many messages.
func holds(t *testing.T, ch *amqp091.Channel, queue string, n int) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		require.NoError(t, err)
		require.Equal(t, n, q.Messages)
	}, rabbittest.Patience, 20*time.Millisecond)
}

func TestSend(t *testing.T) {
	t.Parallel()
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\nbackend: fixedtiers\nfixedtiers: {tiers: [200ms, 3s, 1m]}\n")
	body := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(body, []byte("from a file"), 0o600))
	in := consume(t, channel(t, url), prefix+"-queue")
	for arg, want := range map[string]string{"a text": "a text", "@" + body: "from a file", "-": "from stdin"} {
		start := time.Now()
		status, stdout, stderr := command(t.Context(), t, "send", "--config", config, "--key", prefix+"-queue", "--delay", "150ms",
			"--body", arg, "--header", "a=1=2", "--header", "b=", "--content-type", "text/plain", "--message-id", "id-1")
		require.Equal(t, exitOK, status, stderr)
		require.Regexp(t, `^sent \d+ bytes to queue "`+prefix+`-queue", message-id id-1, due \d{4}-\S+\n$`, stdout)
		require.Empty(t, stderr)
		m := <-in
		require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
		require.Equal(t, want, string(m.Body))
		require.Equal(t, "1=2", m.Headers["a"])
		require.Equal(t, "", m.Headers["b"])
		require.Equal(t, "text/plain", m.ContentType)
		require.Equal(t, "id-1", m.MessageId)
	}

	at := time.Now().Add(2 * time.Second) // time enough for the command to begin
	status, stdout, stderr := command(t.Context(), t, "send", "--config", config, "--key", prefix+"-queue", "--at", at.Format(time.RFC3339Nano),
		"--body", "x", "--output", "json")
	require.Equal(t, exitOK, status, stderr)
	var sent struct {
		ID  string `json:"message_id"`
		Due time.Time
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &sent))
	m := <-in
	require.False(t, time.Now().Before(at), "early")
	require.Equal(t, sent.ID, m.MessageId)
	require.NotEmpty(t, sent.ID, "a random one")
	require.False(t, sent.Due.Before(at))

	status, stdout, stderr = command(t.Context(), t, "send", "--config", config, "--exchange", prefix+"-none", "--key", "k", "--delay", "1s", "--body", "x")
	require.Equal(t, exitFailed, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, `delayer send: publish fixedtiers exchange "`+prefix+`-none": unroutable`)
	require.Contains(t, stderr, "(declare it before publishing)")
}

// TestSend_Unknown: what may be stored is named, so that it can be sent again with the same id.
func TestSend_Unknown(t *testing.T) {
	t.Parallel()
	b, prefix := rabbittest.Ours(t), rabbittest.Prefix(t)
	queue := prefix + "-queue"
	_, err := channel(t, b.URL()).QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
	send := []string{"send", "--config", configFile(t, "url: "+b.URL()+"\nprefix: "+prefix+"\n"), "--key", queue, "--body", "x", "--delay", "0s"}
	status, _, stderr := command(t.Context(), t, send...) // which declares all
	require.Equal(t, exitOK, status, stderr)
	rabbittest.Suspend(t, b, queue) // it confirms nothing
	ctx, interrupt := context.WithTimeout(t.Context(), 10*time.Second)
	defer interrupt()
	status, _, stderr = command(ctx, t, append(send, "--message-id", "mine")...)
	require.Equal(t, exitInterrupted, status)
	require.Regexp(t, "^delayer send: interrupted: .*outcome unknown.*if it was sent, it has message-id mine, due 2", stderr)
}
