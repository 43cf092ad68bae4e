package backend_test

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestOpen_NoPlugin(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t, rabbit.Options{}) // which enables no plugin
	for _, cfg := range []plugin.Config{{}, {Exchange: "theirs"}, {Exchange: "amq.topic"}} {
		ctx := within(t)
		p, err := backend.Open(ctx, backend.Config{Options: pluginOptions(t, b), Backend: plugin.Name, Plugin: cfg})
		require.Nil(t, p)
		require.ErrorIs(t, err, delayer.ErrNotFound)
		assert.ErrorContains(t, err, "RabbitMQ "+b.Version()+" has no exchange type x-delayed-message")
		for _, other := range []string{"binaryladder", "fixedtiers", "controller"} {
			assert.ErrorContains(t, err, other)
		}
		assert.NoError(t, ctx.Err(), "it must not be tried again and again")
	}
	conn, err := amqp091.Dial(b.URL())
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the broker ends next
	list, err := b.Ctl(t.Context(), "list_exchanges", "-q", "name")
	require.NoError(t, err)
	assert.NotContains(t, list, "t-", "nothing is left")
}

func TestOpen_UnfitExchange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  string
		args  amqp091.Table
		flags []string
		err   error
		says  string
	}{
		"missing":          {err: delayer.ErrUnroutable, says: "does not exist"},
		"another type":     {kind: "topic", err: delayer.ErrConflict, says: "is not of type x-delayed-message"},
		"another, passing": {kind: "direct", flags: []string{"transient", "auto-delete"}, err: delayer.ErrConflict, says: "is not of type x-delayed-message"},
		"internal":         {kind: "x-delayed-message", args: delayedTopic, flags: []string{"internal"}, err: delayer.ErrConflict, says: "is internal"},
		"alternate": {kind: "x-delayed-message", args: amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"},
			flags: []string{"transient", "auto-delete"}, err: delayer.ErrConflict, says: "alternate exchange"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPluginUser(t)
			if c.kind != "" {
				r.exchange(c.kind, c.args, c.flags...)
			}
			p, err := r.tryOpen(r.options(), plugin.Config{Exchange: r.name})
			require.Nil(t, p)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.says)
			if c.kind == "" {
				require.ErrorContains(t, r.Ch.ExchangeDeclarePassive(r.name, "direct", true, false, false, false, nil), "404", "it must not be created")
			}
		})
	}
}
