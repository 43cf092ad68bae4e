package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/retry"
)

// work consumes the queue until n messages were handled.
func (m *mailbox) work(queue string, n int, handler retry.Handler) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	require.NoError(m.t, retry.Consume(ctx, m.d, retry.Config{
		URL: m.url, Queue: queue, Policy: retry.Policy{MaxAttempts: 1}, Logger: slog.New(slog.DiscardHandler),
	}, func(ctx context.Context, d amqp091.Delivery) error {
		if n--; n == 0 {
			cancel()
		}
		return handler(ctx, d)
	}))
	require.Zero(m.t, n)
}

func TestMessages_Parked(t *testing.T) {
	m := newMailbox(t)
	queue := m.prefix + "-orders"
	parked := queue + ".parked"
	m.Declare(queue, nil)
	t.Cleanup(func() {
		_, _ = m.Ch.QueueDelete(parked, false, false, false)
		_, _ = m.Ch.QueueDelete(queue+".auto", false, false, false)
	})
	run := func(args ...string) (int, string, string) {
		return command(t.Context(), t, append([]string{"messages", args[0], parked, "--config", m.config}, args[1:]...)...)
	}
	status, _, stderr := run("list")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "there is no such queue (a consumer of package retry declares it")

	_, err := m.Ch.QueueDeclare(queue+".auto", true, true, false, false, nil)
	require.NoError(t, err)
	m.Publish("", queue+".auto", amqp091.Publishing{})
	status, _, stderr = command(t.Context(), t, "messages", "list", queue+".auto", "--config", m.config)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "it is auto-delete: the broker deletes it, with all messages")
	require.Equal(t, 1, m.Count(queue+".auto"))

	for _, id := range []string{"one", "two"} {
		require.NoError(t, m.Ch.Publish("", queue, true, false, amqp091.Publishing{
			MessageId: id, Body: []byte(id), Headers: amqp091.Table{"kind": "order"},
		}))
	}
	m.work(queue, 2, func(context.Context, amqp091.Delivery) error {
		return errors.New("the service is down\x1b[31m: " + strings.Repeat("why ", 50) + "end\nof it")
	})
	require.NoError(t, m.Ch.Publish("", parked, true, false, amqp091.Publishing{MessageId: "stray"}))
	require.Eventually(t, func() bool { return m.Count(parked) == 3 }, time.Minute, 10*time.Millisecond)

	status, stdout, stderr := run("list")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "message-id=one")
	require.Contains(t, stdout, "all 1 attempts failed")
	require.Contains(t, stdout, "the service is down")
	require.NotContains(t, stdout, "\x1b")
	require.Contains(t, stdout, "not parked by package retry")
	require.Contains(t, stdout, "3 messages in "+parked)

	status, stdout, stderr = run("list", "--output", "json", "--id", "one")
	require.Equal(t, exitOK, status, stderr)
	var list struct {
		Total, Selected int
		Messages        []struct {
			MessageID      string    `json:"message_id"`
			Key            string    `json:"routing_key"`
			First          time.Time `json:"first_failure"`
			Attempts, Size int
			Why            string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	require.Equal(t, 3, list.Total)
	require.Len(t, list.Messages, 1)
	one := list.Messages[0]
	require.WithinDuration(t, time.Now(), one.First, time.Minute)
	require.Equal(t, []any{queue, 1, 3, "all 1 attempts failed"}, []any{one.Key, one.Attempts, one.Size, one.Why})
	require.Equal(t, "one", one.MessageID)

	status, stdout, stderr = run("show", "--exchange=", "--key", queue)
	require.Equal(t, exitOK, status, stderr)
	var shown struct {
		Selected int
		Message  struct{ Failures []struct{ Error string } }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &shown))
	require.Equal(t, 2, shown.Selected)
	require.Equal(t, "the service is down\x1b[31m: "+strings.Repeat("why ", 50)+"end\nof it", shown.Message.Failures[0].Error, "the error is whole")

	status, stdout, stderr = run("export", "--id", "two")
	require.Equal(t, exitOK, status, stderr)
	require.Equal(t, 1, strings.Count(stdout, "\n"))
	require.Contains(t, stdout, `"reason":{"type":"string","value":"all 1 attempts failed"}`)

	status, stdout, stderr = run("retry")
	require.Equal(t, exitFailed, status, "the stray stays")
	require.Contains(t, stdout, "2 sent, 1 stay", stderr)
	seen := map[string]retry.Attempt{}
	m.work(queue, 2, func(ctx context.Context, d amqp091.Delivery) error {
		seen[d.MessageId] = retry.Info(ctx)
		require.Equal(t, amqp091.Table{"kind": "order"}, d.Headers)
		require.Equal(t, queue, d.RoutingKey)
		return nil
	})
	first := retry.Attempt{Number: 1, Max: 1}
	require.Equal(t, map[string]retry.Attempt{"one": first, "two": first}, seen, "attempts count from the start")

	status, stdout, stderr = run("purge", "--yes")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "deleted 1 message from "+parked)
	require.Zero(t, m.Count(parked))
}
