package backend_test

import (
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestPlugin_ToItsExchange: a message that has waited comes to an exchange of the user's that
// delays with a negative x-delay, and so is not delayed again.
func TestPlugin_ToItsExchange(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.NeedPlugin(t, rabbittest.DelayedMessages))
	exchange := r.Prefix + "-user"
	require.NoError(t, r.Ch.ExchangeDeclare(exchange, "x-delayed-message", false, true, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	queue := r.Queue("key", nil)
	r.Bind(queue, "a.key", exchange, nil)
	box := r.Consume(queue)
	p := openPlugin(t, pluginOptions(t, r.Broker))
	const delay = 300 * time.Millisecond
	before := time.Now()
	require.NoError(t, p.Publish(t.Context(), exchange, "a.key", delay, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int64(60_000)}}))
	require.Negative(t, rabbittest.Next(t, box).Headers["x-delay"])
	require.False(t, time.Now().Before(before.Add(delay)), "early")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	assert.Equal(t, delayer.Limits{
		Max: 4_294_967_295 * time.Millisecond, Resolution: time.Millisecond, Ordered: true,
		ExactTopics: true, MaxPriority: 255,
	}, openPlugin(t, pluginOptions(t, rabbittest.NeedPlugin(t, rabbittest.DelayedMessages))).Limits())
}

func TestOpen_NoPlugin(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t, rabbit.Options{}) // which enables no plugin
	ctx := within(t)
	p, err := plugin.Open(ctx, pluginOptions(t, b))
	require.Nil(t, p)
	require.ErrorIs(t, err, delayer.ErrNotFound)
	assert.ErrorContains(t, err, "RabbitMQ "+b.Version()+" has no exchange type x-delayed-message")
	for _, other := range []string{"binaryladder", "fixedtiers", "controller"} {
		assert.ErrorContains(t, err, other)
	}
	require.NoError(t, ctx.Err(), "it must not be tried again and again")
	conn, err := amqp091.Dial(b.URL())
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the broker ends next
	list, err := b.Ctl(t.Context(), "list_exchanges", "-q", "name")
	require.NoError(t, err)
	assert.NotContains(t, list, "t-", "nothing is left")
}

func openPlugin(t *testing.T, opts delayer.Options) delayer.Delayer {
	t.Helper()
	p, err := plugin.Open(within(t), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func pluginOptions(t testing.TB, b *rabbit.Broker) delayer.Options {
	return delayer.Options{
		URL: b.URL(), Logger: slog.New(slog.DiscardHandler),
		Prefix: rabbittest.Prefix(t), QueueType: delayer.Quorum, Connections: 1,
	}
}
