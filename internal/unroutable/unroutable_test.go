package unroutable

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/misrouted"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// filled is a Client with n messages in its queue, which goes with the test.
func filled(t *testing.T, n int) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := Open(ctx, broker.Options{URL: rabbittest.Broker(t).URL(), Logger: slog.New(slog.DiscardHandler)}, rabbittest.Prefix(t))
	require.NoError(t, err)
	b.Rules.TTL = misrouted.TTLs(topology.Plan{})
	t.Cleanup(b.Close)
	conn, err := amqp091.Dial(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(t, err)
	_, err = ch.QueueDeclare(b.Queue(), durable, !autoDelete, !exclusive, waitForAnswer, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ch.QueueDelete(b.Queue(), false, false, false) })
	for range n {
		require.NoError(t, ch.PublishWithContext(ctx, "", b.Queue(), true, false, amqp091.Publishing{Body: []byte("x")}))
	}
	await(t, b, n)
	return b
}

func await(t *testing.T, b *Client, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		count, err := b.Count(t.Context())
		return err == nil && count == n
	}, time.Minute, 10*time.Millisecond)
}

func TestTheConnectionIsLostMeanwhile(t *testing.T) {
	b := filled(t, 3)
	r, total, err := b.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, total)
	first, err := r.Next(t.Context())
	require.NoError(t, err)
	require.False(t, first.Ours)
	b.conn.Close()
	for err == nil { // what had come is still handed out
		_, err = r.Next(t.Context())
	}
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	require.ErrorContains(t, err, b.Queue())
	require.Error(t, first.Remove())
	r.Close()
	await(t, b, 3)
}

func TestTheQueueIsDeletedMeanwhile(t *testing.T) {
	b := filled(t, 2)
	r, _, err := b.Read(t.Context())
	require.NoError(t, err)
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.control.Do(t.Context(), func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(b.Queue(), false, false, false)
		return err
	}))
	r.queues[0].left++ // there is one more to come than the broker had sent
	for err == nil {
		_, err = r.Next(t.Context())
	}
	require.ErrorContains(t, err, "was the queue deleted")
	r.Close()
	_, err = b.Count(t.Context())
	require.ErrorContains(t, err, "there is no such queue (a Delayer declares it when it is opened")
}

func TestAMessageThatIsNotSentWhateverItsDestination(t *testing.T) {
	conn, err := broker.Dial(t.Context(), broker.Options{URL: rabbittest.Broker(t).URL(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer conn.Close()
	s, now := &Sender{conn: conn, client: &Client{prefix: "p"}}, time.Now()
	ours := Message{Ours: true, Envelope: message.Envelope{Due: now}}
	require.Empty(t, s.unfit(&ours, now))
	require.Contains(t, s.unfit(&ours, now.Add(-time.Second)), "it is not due before")
	require.Contains(t, s.unfit(&Message{}, now), "no header x-delayer")
	for _, c := range [][2]string{{"", "p.unroutable"}, {"p.delivery", "k"}} {
		own := Message{Ours: true, Envelope: message.Envelope{Due: now, Exchange: c[0]}, Delivery: amqp091.Delivery{RoutingKey: c[1]}}
		require.Contains(t, s.unfit(&own, now), "the Delayer's own")
	}
	ours.UserId = "somebody"
	require.Contains(t, s.unfit(&ours, now), `its user-id is "somebody"`)
}

// TestWaits: what remains of a delay is known without a clock; where something remains, the clock must say twice that it
// is over.
func TestWaits(t *testing.T) {
	due := time.Unix(1000, 0)
	r := &Reader{client: &Client{Rules: misrouted.Rules{TTL: func(queue string) (time.Duration, bool) { return time.Minute, queue == "wait" }}}}
	of := func(headers amqp091.Table) *Message {
		headers[delayer.Header] = message.Envelope{ID: "id", Due: due, Delay: time.Minute}.String()
		return newMessage(amqp091.Delivery{Headers: headers}, r, nil)
	}
	past := due.Add(-time.Hour)
	waited := of(amqp091.Table{"x-death": []any{amqp091.Table{"time": due, "queue": "wait", "reason": "expired"}, "nonsense"}})
	require.Equal(t, due, waited.Came)
	require.False(t, waited.Early())
	require.Empty(t, waited.waits(past), "however slow this clock is")

	early := of(amqp091.Table{message.Came: due.Add(time.Hour)})
	require.True(t, early.Early())
	require.Contains(t, early.waits(due.Add(time.Hour)), "it is not due before", "it has not been there for a minute")
	require.Empty(t, early.waits(due.Add(time.Hour+time.Minute)))
	require.Contains(t, of(amqp091.Table{message.Came: past}).waits(past.Add(time.Minute)), "it is not due before")

	held := of(amqp091.Table{message.Stamp: amqp091.Table{}})
	require.False(t, held.Known)
	require.Contains(t, held.waits(past), "it is not due before")
	require.Empty(t, held.waits(due))
	require.False(t, newMessage(amqp091.Delivery{Headers: amqp091.Table{delayer.Header: "nonsense"}}, nil, nil).Ours)
}

// TestExportLosesNothing reads a line back.
func TestExportLosesNothing(t *testing.T) {
	headers := amqp091.Table{
		"void": nil, "bool": true, "string": "é", "bytes": []byte{0, 255}, "latin": "\xe9", "time": time.Unix(1700000000, 0).UTC(),
		"far": time.Unix(1<<45, 0).UTC(), "decimal": amqp091.Decimal{Scale: 2, Value: -5}, "f32": float32(0.1), "f64": math.Pi,
		"inf": math.Inf(-1), "i8": int8(-8), "u8": byte(8), "i16": int16(-16), "u16": uint16(16), "i32": int32(-32), "u32": uint32(32),
		"i64": int64(math.MaxInt64), "list": []any{int64(1), "two", []any{}}, "table": amqp091.Table{"deep": amqp091.Table{"n": nil}},
	}
	m := newMessage(amqp091.Delivery{Headers: headers, RoutingKey: "\xff", Body: []byte{1, 2}, MessageId: "m", Priority: 9}, nil, nil)
	text, err := m.Export()
	require.NoError(t, err)
	var got struct {
		Exchange   *string
		Key        any `json:"routing_key"`
		Headers    map[string]json.RawMessage
		Properties map[string]any
		Body       []byte
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.Nil(t, got.Exchange)
	require.Equal(t, map[string]any{"base64": "/w=="}, got.Key)
	require.Equal(t, []byte{1, 2}, got.Body)
	require.Equal(t, map[string]any{"message_id": "m", "priority": 9.0}, got.Properties)
	require.Len(t, got.Headers, len(headers))
	for name, value := range headers {
		require.Equal(t, value, parsed(t, got.Headers[name]), name)
	}
	m.Headers["x"] = struct{}{}
	_, err = m.Export()
	require.ErrorContains(t, err, `header "x"`)
}

// parsed is a header's value as docs/unroutable.md says how to read it.
func parsed(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	var f struct {
		Type  string
		Value json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &f))
	into := func(p any) { require.NoError(t, json.Unmarshal(f.Value, p), "%s", raw) }
	switch f.Type {
	case "void":
		return nil
	case "bool":
		return as[bool](into)
	case "int8":
		return as[int8](into)
	case "uint8":
		return as[uint8](into)
	case "int16":
		return as[int16](into)
	case "uint16":
		return as[uint16](into)
	case "int32":
		return as[int32](into)
	case "uint32":
		return as[uint32](into)
	case "int64":
		return as[int64](into)
	case "float32":
		return as[float32](into)
	case "float64":
		if string(f.Value) == `"-Inf"` {
			return math.Inf(-1)
		}
		return as[float64](into)
	case "bytes":
		return as[[]byte](into)
	case "decimal":
		return as[amqp091.Decimal](into)
	case "time":
		if f.Value[0] != '"' {
			return time.Unix(as[int64](into), 0).UTC()
		}
		return as[time.Time](into)
	case "string":
		if f.Value[0] == '{' {
			bytes, err := base64.StdEncoding.DecodeString(as[map[string]string](into)["base64"])
			require.NoError(t, err)
			return string(bytes)
		}
		return as[string](into)
	case "array":
		list := []any{}
		for _, item := range as[[]json.RawMessage](into) {
			list = append(list, parsed(t, item))
		}
		return list
	case "table":
		table := amqp091.Table{}
		for name, item := range as[map[string]json.RawMessage](into) {
			table[name] = parsed(t, item)
		}
		return table
	}
	t.Fatalf("type %q", f.Type)
	return nil
}

func as[T any](into func(any)) (v T) {
	into(&v)
	return v
}
