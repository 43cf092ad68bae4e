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
	"github.com/delayer-go/delayer/delayertest"
)

// The shape of amqp091-go's channel.
type publisher interface {
	Publish(exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
}

var _, _ publisher = (*amqp091.Channel)(nil), (*Publisher)(nil)

func TestPublisher(t *testing.T) {
	const mandatory, immediate = true, true
	sent := amqp091.Publishing{
		Headers: amqp091.Table{"x-delay": int32(1500), "CC": []any{"c"}, "other": 1}, ContentType: "a", ContentEncoding: "b",
		DeliveryMode: 1, Priority: 2, CorrelationId: "c", ReplyTo: "d", MessageId: "e",
		Timestamp: time.Unix(4, 0), Type: "f", UserId: "g", AppId: "h", Body: []byte("i"),
	}
	before := maps.Clone(sent.Headers)
	d := delayertest.New(delayertest.Config{})
	p := NewPublisher(d)
	require.NoError(t, p.PublishWithContext(t.Context(), "x", "k", mandatory, !immediate, sent))
	assert.Equal(t, before, sent.Headers, "the caller's table is not modified")
	want := sent
	want.Headers = amqp091.Table{"CC": []any{"c"}, "other": 1}
	sending := []delayer.Message{{Exchange: "x", Key: "k", Delay: 1500 * time.Millisecond, Publishing: want}}
	assert.Equal(t, sending, d.Published())

	d.FailNext(delayer.ErrUnroutable)
	err := p.Publish("x", "k", !mandatory, !immediate, amqp091.Publishing{})
	assert.ErrorIs(t, err, delayer.ErrUnroutable)
}

func TestPublisher_Refuses(t *testing.T) {
	const mandatory, immediate = false, true
	d := delayertest.New(delayertest.Config{})
	p := NewPublisher(d)
	err := p.Publish("x", "k", mandatory, immediate, amqp091.Publishing{})
	require.ErrorIs(t, err, delayer.ErrInvalid)
	assert.ErrorContains(t, err, "immediate")
	err = p.Publish("x", "k", mandatory, !immediate, amqp091.Publishing{Headers: amqp091.Table{"x-delay": "5s"}})
	require.ErrorIs(t, err, delayer.ErrInvalid)
	assert.ErrorContains(t, err, `to exchange "x" with key "k"`)
	assert.ErrorContains(t, err, `"5s"`)
	assert.Empty(t, d.Published())
}
