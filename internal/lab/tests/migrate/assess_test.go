package migrate_test

import (
	"net/http"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/assess"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
)

const (
	durable    = true
	autoDelete = true
	internal   = true
	noWait     = true
)

// TestLook sees each exchange of the plugin in a vhost with a slash, with names that need escaping,
// arguments of 64 bits, bindings both ways and what waits.
func TestLook(t *testing.T) {
	t.Parallel()
	const vhost, odd = "/look at/it", `ca fé/"a'%2F?#`
	r := newRigAt(t, needPlugin(t), vhost)
	b, ch, api := r.Broker, r.Ch, r.api
	const big = int64(1)<<53 + 1
	require.NoError(t, ch.ExchangeDeclare(odd, "x-delayed-message", durable, !autoDelete, internal, !noWait,
		amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}))
	require.NoError(t, ch.ExchangeDeclare("plain", "x-delayed-message", !durable, !autoDelete, !internal, !noWait, amqp091.Table{"x-delayed-type": "headers", "n": big}))
	require.NoError(t, ch.ExchangeDeclare("front", "direct", durable, !autoDelete, !internal, !noWait, amqp091.Table{"alternate-exchange": odd}))
	r.Declare("to / it", nil)
	r.Bind("to / it", "a.*", odd, amqp091.Table{"n": big, "t": amqp091.Table{"x": "y"}})
	require.NoError(t, ch.ExchangeBind("amq.headers", "é", odd, !noWait, nil))
	require.NoError(t, ch.ExchangeBind(odd, "k", "front", !noWait, nil))
	r.publish("plain", "", 3, time.Hour, nil)
	change(t, b, http.MethodPut, map[string]any{"pattern": "^pl", "definition": map[string]string{"alternate-exchange": "front"}, "apply-to": "exchanges"}, "policies", vhost, "p")

	v, err := api.Look(t.Context())
	require.NoError(t, err)
	require.Empty(t, v.Unseen, "the broker's user is an administrator")
	require.Equal(t, b.Version(), v.Version)
	require.Len(t, v.Delayed, 2)
	require.Equal(t, inventory.Definition{
		Exchange: inventory.Exchange{Name: odd, Type: "x-delayed-message", Durable: true, Internal: true, Arguments: amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}},
		Out: []inventory.BindingInfo{
			{Source: odd, Target: "amq.headers", ToExchange: true, Key: "é", Arguments: amqp091.Table{}},
			{Source: odd, Target: "to / it", Key: "a.*", Arguments: amqp091.Table{"n": big, "t": amqp091.Table{"x": "y"}}},
		},
		In: []inventory.BindingInfo{{Source: "front", Target: odd, ToExchange: true, Key: "k", Arguments: amqp091.Table{}}},
	}, v.Delayed[0].Definition)
	require.Zero(t, *v.Delayed[0].Pending)
	require.EqualValues(t, 3, *v.Delayed[1].Pending)
	require.Equal(t, amqp091.Table{"x-delayed-type": "headers", "n": big}, v.Delayed[1].Arguments)

	definition, err := api.Definition(t.Context(), odd)
	require.NoError(t, err)
	require.Equal(t, v.Delayed[0].Definition, definition)
	require.Equal(t, "p", v.Delayed[1].Policy)
	require.Len(t, v.Nodes, 1)
	require.True(t, v.Nodes[0].Running)
	_, err = api.Definition(t.Context(), "no such")
	require.ErrorIs(t, err, delayer.ErrUnroutable)

	var says string
	for _, f := range assess.Assess(assess.Question{Inventory: v, Prefix: "delayer"}) {
		require.NotEqual(t, assess.Blocker, f.Level, f)
		says += f.String()
	}
	require.Contains(t, says, `it is the alternate exchange of "front"`)
	require.Eventually(t, func() bool { // the API learns a few seconds after the start what runs
		v, err := api.Look(t.Context())
		return err == nil && v.Nodes[0].Plugin != ""
	}, time.Minute, 100*time.Millisecond)
}
