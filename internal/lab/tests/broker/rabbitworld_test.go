package broker_test

import (
	"context"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/conformance/rabbitworld"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func worldOf(t *testing.T, cfg rabbitworld.Config) conformance.World {
	t.Helper()
	b, err := rabbitworld.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	w, err := b.World(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w
}

// consume returns a channel of what arrives in a queue.
func arrivals(t *testing.T, w conformance.World, queue string) <-chan string {
	t.Helper()
	arrived := make(chan string, 100)
	require.NoError(t, w.Consume(t.Context(), queue, func(a conformance.Arrival) { arrived <- a.MessageId }))
	return arrived
}

func nextID(t *testing.T, arrived <-chan string) string {
	t.Helper()
	select {
	case id := <-arrived:
		return id
	case <-time.After(patience):
		require.Fail(t, "nothing arrives")
		return ""
	}
}

func TestWorldRoutes(t *testing.T) {
	t.Parallel()
	w := worldOf(t, rabbitworld.Config{URL: rabbittest.Broker(t).URL()})
	ctx, name := t.Context(), rabbittest.Prefix(t)
	require.NoError(t, w.DeclareExchange(ctx, name, "topic"))
	require.NoError(t, w.DeclareQueue(ctx, name))
	require.NoError(t, w.Bind(ctx, name, "a.*", name, nil))
	arrived := arrivals(t, w, name)

	require.NoError(t, w.Publish(ctx, name, "b", amqp091.Publishing{MessageId: "not bound"}))
	require.NoError(t, w.Publish(ctx, name, "a.b", amqp091.Publishing{MessageId: "bound"}))
	assert.Equal(t, "bound", nextID(t, arrived))

	require.NoError(t, w.Unbind(ctx, name, "a.*", name, nil))
	require.NoError(t, w.Publish(ctx, name, "a.b", amqp091.Publishing{MessageId: "bound no more"}))
	require.NoError(t, w.Publish(ctx, "", name, amqp091.Publishing{MessageId: "by name"}))
	assert.Equal(t, "by name", nextID(t, arrived))

	require.NoError(t, w.DeleteQueue(ctx, name))
	require.NoError(t, w.DeclareQueue(ctx, name))
	require.NoError(t, w.Publish(ctx, "", name, amqp091.Publishing{MessageId: "again"}))
	assert.Equal(t, "again", nextID(t, arrivals(t, w, name)))
}

func TestUnroutableIsSeenByAll(t *testing.T) {
	t.Parallel()
	name := rabbittest.Prefix(t)
	url := rabbittest.Broker(t).URL()
	owner := worldOf(t, rabbitworld.Config{URL: url})
	require.NoError(t, owner.DeclareQueue(t.Context(), name))
	require.NoError(t, owner.Publish(t.Context(), "", name, amqp091.Publishing{MessageId: "before"}))

	w := worldOf(t, rabbitworld.Config{URL: url, Unroutable: name})
	for range 2 {
		arrived := make(chan string, 10)
		require.NoError(t, w.Unroutable(t.Context(), func(a conformance.Arrival) { arrived <- a.MessageId }))
		assert.Equal(t, "before", nextID(t, arrived))
	}
}

func TestWorldSaysWhatItCannotDo(t *testing.T) {
	t.Parallel()
	w := worldOf(t, rabbitworld.Config{URL: rabbittest.Broker(t).URL()})
	assert.ErrorContains(t, w.Cut(t.Context()), "Config.Cut is nil")
	assert.ErrorContains(t, w.Restart(t.Context()), "Config.Restart is nil")
	assert.ErrorContains(t, w.Unroutable(t.Context(), nil), "no queue")
	_, err := w.DeclareStuckQueue(t.Context(), rabbittest.Prefix(t))
	assert.ErrorContains(t, err, "Config.Suspend is nil")
}

// TestWorldComesBack restarts the broker, after which the world must go on by itself.
func TestWorldComesBack(t *testing.T) {
	broker := rabbittest.Alone(t)
	w := worldOf(t, rabbitworld.Config{
		URL:     broker.URL(),
		Restart: broker.Restart,
		Cut:     broker.CutConnections,
	})
	ctx, name := t.Context(), rabbittest.Prefix(t)
	require.NoError(t, w.DeclareQueue(ctx, name))
	arrived := arrivals(t, w, name)
	for what, disturb := range map[string]func(context.Context) error{"cut": w.Cut, "restart": w.Restart} {
		require.NoError(t, disturb(ctx), what)
		require.NoError(t, w.Publish(ctx, "", name, amqp091.Publishing{MessageId: what}))
		assert.Equal(t, what, nextID(t, arrived))
	}
}
