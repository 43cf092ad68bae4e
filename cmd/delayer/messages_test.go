package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/retry"
)

// A mailbox is a queue for unroutable messages, of a Delayer of the test's own.
type mailbox struct {
	*rabbittest.Rig
	t      *testing.T
	d      delayer.Delayer
	url    string
	prefix string
	config string
}

func newMailbox(t *testing.T) *mailbox {
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	m := &mailbox{Rig: r, t: t, url: r.Broker.URL(), prefix: r.Prefix}
	m.config = configFile(t, "url: "+m.url+"\nprefix: "+m.prefix+"\nbackend: fixedtiers\nfixedtiers: {tiers: [2s]}\n")
	cfg, err := backend.Load(m.config)
	require.NoError(t, err)
	cfg.Logger = slog.New(slog.DiscardHandler)
	m.d = rabbittest.Open(t, cfg)
	return m
}

func (m *mailbox) queue() string { return m.prefix + ".unroutable" }

// run is `delayer messages args`.
func (m *mailbox) run(args ...string) (status int, stdout, stderr string) {
	m.t.Helper()
	return command(m.t.Context(), m.t, append([]string{"messages", args[0], "--config", m.config}, args[1:]...)...)
}

// json is what a command writes with --output json.
func (m *mailbox) json(args ...string) (value map[string]any) {
	m.t.Helper()
	status, stdout, stderr := m.run(append(args, "--output", "json")...)
	require.Equal(m.t, exitOK, status, stderr)
	require.NoError(m.t, json.Unmarshal([]byte(stdout), &value), stdout)
	return value
}

// holds waits until there are n messages. A broker that is not ours publishes one that was on its
// way to a queue which was deleted again after three minutes.
func (m *mailbox) holds(n int) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return m.Count(m.queue()) == n }, 4*time.Minute, 20*time.Millisecond)
}

// put has a message in the queue that was due at a time, without waiting for that.
func (m *mailbox) put(id, exchange, key string, due time.Time, msg amqp091.Publishing) {
	m.t.Helper()
	msg.Headers = amqp091.Table{delayer.Header: message.Envelope{ID: id, Due: due, Delay: max(0, time.Until(due)), Exchange: exchange}.String(), "mine": int64(1) << 40}
	m.Publish(m.queue()+".keep", key, msg)
}

// TestMessages_Unroutable follows three messages and a stray one from where their destinations are
// gone to where they should be.
func TestMessages_Unroutable(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	queue, exchange := m.prefix+"-orders", m.prefix+"-x"
	sent := amqp091.Publishing{
		Headers: amqp091.Table{"n": int64(7), "CC": []any{"copy"}}, ContentType: "text/plain", MessageId: "m-1", Priority: 4,
		Timestamp: time.Unix(1700000000, 0).UTC(), Body: []byte("hello"),
	}
	for arrived := 1; arrived > 0; { // if the machine is slow, the message was there before its queue was deleted
		m.Declare(queue, nil)
		require.NoError(t, m.d.Publish(t.Context(), "", queue, time.Second, sent))
		var err error
		arrived, err = m.Ch.QueueDelete(queue, false, false, false)
		require.NoError(t, err)
	}
	m.holds(1)
	m.put("ours", exchange, "a.b", time.Now(), amqp091.Publishing{Body: make([]byte, 3000)})
	require.NoError(t, m.Ch.PublishWithContext(t.Context(), m.queue()+".keep", "stray", true, false, amqp091.Publishing{MessageId: "who", Body: []byte("?")}))
	m.put("future", "", queue, time.Now().Add(time.Hour), amqp091.Publishing{})
	m.holds(4)

	status, stdout, stderr := m.run("list")
	require.Equal(t, exitOK, status, stderr)
	require.Regexp(t, `(?m)^DESTINATION +KEY +ID +DUE +HERE +SIZE +WHY$`, stdout)
	require.Regexp(t, `(?m)^queue \S+ +- +\w+ message-id=m-1 +\d+\w+( \d+\w)? ago +\d+\w+( \d+\w)? +5 B +no such queue$`, stdout)
	require.Regexp(t, `(?m)^exchange \S+ +a\.b +ours +\d+\w+( \d+\w)? ago +- +2\.9 KiB +no such exchange$`, stdout)
	require.Regexp(t, `(?m)^unknown +stray +message-id=who +- +- +1 B +no x-delayer header: not a Delayer's$`, stdout)
	require.Regexp(t, `(?m)^queue \S+ +- +future +in 5\dm \d+s +- +0 B +no such queue$`, stdout)
	require.Contains(t, stdout, "4 messages in "+m.queue()+".")
	m.holds(4)
	listed := m.json("list", "--limit", "3")
	require.Equal(t, []any{m.queue(), 4.0, 4.0}, []any{listed["queue"], listed["total"], listed["selected"]})
	first := listed["messages"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"", queue, "m-1", 5.0, "no such queue"},
		[]any{first["exchange"], first["routing_key"], first["message_id"], first["size"], first["why"]})
	require.Len(t, listed["messages"], 3)

	status, stdout, stderr = m.run("show")
	require.Equal(t, exitOK, status, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &first))
	require.Equal(t, []any{m.queue(), 4.0, 4.0}, []any{first["queue"], first["total"], first["selected"]})
	one := first["message"].(map[string]any)
	require.Equal(t, []any{"m-1", "", queue, "aGVsbG8=", "no such queue"}, []any{one["message_id"], one["exchange"], one["routing_key"], one["body"], one["why"]})
	require.Equal(t, map[string]any{"type": "int64", "value": 7.0}, one["headers"].(map[string]any)["n"])
	require.Equal(t, "text/plain", one["properties"].(map[string]any)["content_type"])
	status, stdout, stderr = m.run("show", m.queue(), "--id", "ours") // the queue may be named
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, `"exchange": "`+exchange+`"`)
	status, stdout, stderr = m.run("show", "--id", "nobody")
	require.Equal(t, exitFailed, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "delayer messages show: there is no such message: 4 messages in "+m.queue()+", none of them selected")
	m.holds(4)

	status, stdout, stderr = m.run("retry")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "4 messages stay: fix what is named above, and retry")
	require.Contains(t, stdout, "no such queue")
	require.Contains(t, stdout, "no such exchange")
	require.Contains(t, stdout, "its destination is not known")
	require.Contains(t, stdout, "it is not due before")
	m.holds(4)

	in := consume(t, m.Ch, queue)
	require.Equal(t, map[string]any{
		"queue": m.queue(), "total": 4.0, "not_selected": 3.0, "not_reached": 0.0, "stay": map[string]any{},
		"sent": map[string]any{"queue " + queue: 1.0},
	}, m.json("retry", "--id", "m-1"))
	got := <-in
	require.Equal(t, []any{"text/plain", "m-1", uint8(4), uint8(2), "hello", queue, "", sent.Timestamp},
		[]any{got.ContentType, got.MessageId, got.Priority, got.DeliveryMode, string(got.Body), got.RoutingKey, got.Exchange, got.Timestamp.UTC()})
	require.Equal(t, int64(7), got.Headers["n"])
	require.Equal(t, []any{"copy"}, got.Headers["CC"])
	require.Contains(t, got.Headers, delayer.Header)
	require.NotContains(t, got.Headers, message.Came)
	require.NotContains(t, got.Headers, "x-delivery-count")
	require.NotContains(t, got.Headers, "x-acquired-count")

	require.NoError(t, m.Ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	defer func() { _ = m.Ch.ExchangeDelete(exchange, false, false) }()
	status, stdout, _ = m.run("retry", "--exchange", exchange, "--key", "a.b")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stdout, "nothing is bound there for its key")
	require.NoError(t, m.Ch.QueueBind(queue, "a.*", exchange, false, nil))
	for _, option := range []string{"--from", "--delay"} {
		status, _, stderr = m.run("retry", option, "5s")
		require.Equal(t, exitFailed, status)
		require.Contains(t, stderr, option+" is for", "it would do nothing here")
	}
	for to, why := range map[string]string{
		"": "queue stray: no such queue", exchange: exchange + ": nothing is bound there for its key",
		m.prefix + ".delivery": "its destination is an object of the Delayer's own",
	} {
		status, stdout, _ = m.run("retry", "--id", "who", "--to", to)
		require.Equal(t, exitFailed, status)
		require.Contains(t, stdout, why)
	}
	status, _, stderr = m.run("retry", "--exchange", exchange)
	require.Equal(t, exitOK, status, stderr)
	got = <-in
	require.Equal(t, "a.b", got.RoutingKey)
	require.Equal(t, exchange, got.Exchange)

	out := filepath.Join(t.TempDir(), "messages.jsonl")
	status, stdout, stderr = m.run("export", "--out", out, "--id", "future")
	require.Equal(t, exitOK, status, stderr)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "exported 1 message of "+m.queue()+"; they are still there")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(text), `"mine":{"type":"int64","value":1099511627776}`)
	status, _, stderr = m.run("export", "--out", out)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "file exists")

	status, _, stderr = m.run("purge")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "standard input is no terminal: give --yes")
	status, _, stderr = m.run("purge", "--output", "json")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "--output json asks nobody: give --yes")
	status, stdout, stderr = m.run("purge", "--yes", "--id", "who,nobody")
	require.Equal(t, exitOK, status, stderr)
	require.Regexp(t, `(?m)^1 +unknown$`, stdout)
	require.Contains(t, stdout, "deleted 1 message from "+m.queue())
	m.holds(1)
	require.Equal(t, map[string]any{"queue": m.queue(), "deleted": map[string]any{"queue " + queue: 1.0}}, m.json("purge", "--yes"))
	m.holds(0)
	status, _, stderr = m.run("list", "--prefix", m.prefix+"other")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "there is no such queue (a Delayer declares it when it is opened")
	for want, args := range map[string][]string{
		" is empty.":                           {"list"},
		" is empty: there is nothing to send.": {"retry"},
		"nothing to delete in ":                {"purge", "--yes"},
	} {
		status, stdout, stderr = m.run(args...)
		require.Equal(t, exitOK, status, stderr)
		require.Contains(t, stdout, want)
	}
}

// TestMessagesRetry_Interrupted ends it after the first message has arrived.
func TestMessagesRetry_Interrupted(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	queue := m.prefix + "-q"
	in := consume(t, m.Ch, queue)
	const n = 600
	for i := range n {
		m.put(fmt.Sprint("id", i), "", queue, time.Now(), amqp091.Publishing{})
	}
	m.holds(n)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var seen atomic.Int64
	go func() { // ends with the test's channel
		for range in {
			seen.Add(1)
			interrupt()
		}
	}()
	status, stdout, stderr := command(ctx, t, "messages", "retry", "--config", m.config)
	require.Equal(t, exitInterrupted, status, stderr)
	require.Contains(t, stderr, "interrupted; no message is lost")
	said := regexp.MustCompile(`^MESSAGES(?s:.*)\n600 messages in \S+: (\d+) sent, 0 stay, 0 not selected, (\d+) not reached\.\n$`).FindStringSubmatch(stdout)
	require.NotNil(t, said, stdout)
	sent, err := strconv.Atoi(said[1])
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(n-sent), said[2])
	status, _, stderr = m.run("retry")
	require.Equal(t, exitOK, status, stderr)
	m.holds(0)
	require.Eventually(t, func() bool { return seen.Load() >= n }, time.Minute, 20*time.Millisecond)
	require.Zero(t, m.Count(queue))
	require.EqualValues(t, n, seen.Load(), "each once")
}

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
