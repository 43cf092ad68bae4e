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

	r = recorder{err: delayer.ErrUnroutable}
	assert.Equal(t, r.err, NewPublisher(&r).Publish("x", "k", !mandatory, !immediate, amqp091.Publishing{}))
}

func TestPublisher_Refuses(t *testing.T) {
	const mandatory, immediate = false, true
	var r recorder
	p := NewPublisher(&r)
	err := p.Publish("x", "k", mandatory, immediate, amqp091.Publishing{})
	require.ErrorIs(t, err, delayer.ErrInvalid)
	assert.ErrorContains(t, err, "immediate")
	err = p.Publish("x", "k", mandatory, !immediate, amqp091.Publishing{Headers: amqp091.Table{"x-delay": "5s"}})
	require.ErrorIs(t, err, delayer.ErrInvalid)
	assert.ErrorContains(t, err, `to exchange "x" with key "k"`)
	assert.ErrorContains(t, err, `"5s"`)
	assert.Zero(t, r.calls)
}
