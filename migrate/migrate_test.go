package migrate

import (
	"context"
	"maps"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// The shape of amqp091-go's channel.
type publisher interface {
	Publish(exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
}

var _, _ publisher = (*amqp091.Channel)(nil), (*Publisher)(nil)

// recorder is a Delayer that notes what it is given.
type recorder struct {
	delayer.Delayer // nil: nothing else is called
	exchange, key   string
	delay           time.Duration
	msg             amqp091.Publishing
	calls           int
	err             error
}

func (r *recorder) Publish(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	r.exchange, r.key, r.delay, r.msg = exchange, key, delay, msg
	r.calls++
	return r.err
}
func (*recorder) Limits() delayer.Limits { return delayer.Limits{} }
func (*recorder) Close() error           { return nil }

func TestPublisher(t *testing.T) {
	const mandatory, immediate = true, true
	sent := amqp091.Publishing{
		Headers: amqp091.Table{"x-delay": int32(1500), "CC": []any{"c"}, "other": 1}, ContentType: "a", ContentEncoding: "b",
		DeliveryMode: 1, Priority: 2, CorrelationId: "c", ReplyTo: "d", Expiration: "3", MessageId: "e",
		Timestamp: time.Unix(4, 0), Type: "f", UserId: "g", AppId: "h", Body: []byte("i"),
	}
	before := maps.Clone(sent.Headers)
	var r recorder
	require.NoError(t, NewPublisher(&r).PublishWithContext(t.Context(), "x", "k", mandatory, !immediate, sent))
	assert.Equal(t, before, sent.Headers, "the caller's table is not modified")
	want := sent
	want.Headers = amqp091.Table{"CC": []any{"c"}, "other": 1}
	assert.Equal(t, recorder{exchange: "x", key: "k", delay: 1500 * time.Millisecond, msg: want, calls: 1}, r)

	for name, headers := range map[string]amqp091.Table{
		"none": nil, "another": {"a": 1}, "zero": {"x-delay": 0}, "negative": {"x-delay": -5}, "nil": {"x-delay": nil},
	} {
		r = recorder{}
		require.NoError(t, NewPublisher(&r).Publish("x", "k", !mandatory, !immediate, amqp091.Publishing{Headers: headers}), name)
		assert.Zero(t, r.delay, name)
		assert.Equal(t, 1, r.calls)
		assert.NotContains(t, r.msg.Headers, "x-delay")
	}

	r = recorder{err: delayer.ErrUnroutable}
	assert.Equal(t, r.err, NewPublisher(&r).Publish("x", "k", !mandatory, !immediate, amqp091.Publishing{}))
}

func TestPublisher_Refuses(t *testing.T) {
	const mandatory = false
	for name, c := range map[string]struct {
		headers   amqp091.Table
		immediate bool
		says      string
	}{
		"immediate":      {nil, true, "immediate"},
		"a text":         {amqp091.Table{"x-delay": "5s"}, false, `"5s"`},
		"too long":       {amqp091.Table{"x-delay": int64(1) << 32}, false, "4294967296"},
		"a bool":         {amqp091.Table{"x-delay": true}, false, "bool"},
		"other spelling": {amqp091.Table{"X-Delay": 5}, false, `"X-Delay"`},
	} {
		var r recorder
		err := NewPublisher(&r).PublishWithContext(t.Context(), "x", "k", mandatory, c.immediate, amqp091.Publishing{Headers: c.headers})
		require.ErrorIs(t, err, delayer.ErrInvalid, name)
		assert.True(t, delayer.SafeToRetry(err))
		assert.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, `to exchange "x" with key "k"`)
		assert.Zero(t, r.calls, name)
	}
}
