package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/assess"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// apiOf is the management API of a broker's vhost. A broker that takes AMQP connections since a
// moment may still answer 500 there.
func apiOf(t testing.TB, b *rabbit.Broker, vhost string) *inventory.API {
	t.Helper()
	api := inventoryOf(t, management(t, b), vhost)
	require.Eventually(t, func() bool { return api.Reachable(t.Context()) == nil }, time.Minute, 100*time.Millisecond)
	return api
}

func userOf(t testing.TB, b *rabbit.Broker) string {
	t.Helper()
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	return u.User.Username()
}

// everything is what permits all.
var everything = map[string]string{"configure": ".*", "write": ".*", "read": ".*"}

// change asks the management API to make or delete an object. rabbitmqctl takes a hundred times as
// long.
func change(t testing.TB, b *rabbit.Broker, method string, body any, path ...string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	at, err := url.Parse(management(t, b))
	require.NoError(t, err)
	address := at.Scheme + "://" + at.User.String() + "@" + at.Host + "/api"
	for _, word := range path {
		address += "/" + url.PathEscape(word)
	}
	require.Eventually(t, func() bool { // it may start a moment after the rest
		request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, address, bytes.NewReader(text))
		require.NoError(t, err)
		request.Close = true
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer answer.Body.Close() //nolint:errcheck // only the status counts
		return answer.StatusCode < http.StatusMultipleChoices
	}, time.Minute, 100*time.Millisecond, "%s %v", method, path)
}

// vhostOf makes a vhost for a test, which the broker's user may use.
func vhostOf(t testing.TB, b *rabbit.Broker, name string) *amqp091.Channel {
	t.Helper()
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to make a vhost")
	}
	change(t, b, http.MethodPut, nil, "vhosts", name)
	change(t, b, http.MethodPut, everything, "permissions", name, userOf(t, b))
	conn, err := amqpclient.Dial(t.Context(), withVhost(t, b.URL(), name), t.Name())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(t, err)
	return ch
}

func withVhost(t testing.TB, address, vhost string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Scheme + "://" + u.User.String() + "@" + u.Host + "/" + url.PathEscape(vhost)
}

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
	b := needPlugin(t)
	const vhost, odd = "/look at/it", `ca fé/"a'%2F?#`
	ch := vhostOf(t, b, vhost)
	const big = int64(1)<<53 + 1
	require.NoError(t, ch.ExchangeDeclare(odd, "x-delayed-message", durable, !autoDelete, internal, !noWait,
		amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}))
	require.NoError(t, ch.ExchangeDeclare("plain", "x-delayed-message", !durable, !autoDelete, !internal, !noWait, amqp091.Table{"x-delayed-type": "headers", "n": big}))
	require.NoError(t, ch.ExchangeDeclare("front", "direct", durable, !autoDelete, !internal, !noWait, amqp091.Table{"alternate-exchange": odd}))
	_, err := ch.QueueDeclare("to / it", durable, !autoDelete, false, !noWait, nil)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind("to / it", "a.*", odd, !noWait, amqp091.Table{"n": big, "t": amqp091.Table{"x": "y"}}))
	require.NoError(t, ch.ExchangeBind("amq.headers", "é", odd, !noWait, nil))
	require.NoError(t, ch.ExchangeBind(odd, "k", "front", !noWait, nil))
	require.NoError(t, ch.Confirm(!noWait))
	for range 3 {
		sent, err := ch.PublishWithDeferredConfirm("plain", "", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int32(time.Hour.Milliseconds())}})
		require.NoError(t, err)
		require.True(t, sent.Wait())
	}
	change(t, b, http.MethodPut, map[string]any{"pattern": "^pl", "definition": map[string]string{"alternate-exchange": "front"}, "apply-to": "exchanges"}, "policies", vhost, "p")

	api := apiOf(t, b, vhost)
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
	delayed, err := api.Delayed(t.Context())
	require.NoError(t, err)
	require.Len(t, delayed, 2)
	require.Equal(t, "p", delayed[1].Policy)
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
