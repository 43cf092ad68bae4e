package undelivered

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// TestWaits: what remains of a delay is known without a clock; where something remains, the clock
// must say twice that it is over.
func TestWaits(t *testing.T) {
	due := time.Unix(1000, 0)
	c := &Client{prefix: "p", Rules: delivery.Rules{TTL: func(queue string) (time.Duration, bool) { return time.Minute, queue == "wait" }}}
	of := func(headers amqp091.Table) *Kept {
		headers[delayer.Header] = message.Envelope{ID: "id", Due: due, Delay: time.Minute}.String()
		return newKept(c, amqp091.Delivery{Headers: headers}, &window{})
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
	require.False(t, newKept(c, amqp091.Delivery{Headers: amqp091.Table{delayer.Header: "nonsense"}}, nil).Ours)
}

// TestExportLosesNothing reads a line back.
func TestExportLosesNothing(t *testing.T) {
	headers := amqp091.Table{
		"void": nil, "bool": true, "string": "é", "bytes": []byte{0, 255}, "latin": "\xe9", "time": time.Unix(1700000000, 0).UTC(),
		"far": time.Unix(1<<45, 0).UTC(), "decimal": amqp091.Decimal{Scale: 2, Value: -5}, "f32": float32(0.1), "f64": math.Pi,
		"inf": math.Inf(-1), "i8": int8(-8), "u8": byte(8), "i16": int16(-16), "u16": uint16(16), "i32": int32(-32), "u32": uint32(32),
		"i64": int64(math.MaxInt64), "list": []any{int64(1), "two", []any{}}, "table": amqp091.Table{"deep": amqp091.Table{"n": nil}},
	}
	m := newKept(&Client{prefix: "p"}, amqp091.Delivery{Headers: headers, RoutingKey: "\xff", Body: []byte{1, 2}, MessageId: "m", Priority: 9}, nil)
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
