package migrate_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/topology"
)

// A swapRig is a user's exchange in a vhost, and what the tool has.
type swapRig struct {
	*rabbittest.Rig
	conn         *broker.Conn
	api          *inventory.API
	url, vhost   string
	prefix, name string
	onNode       bool // the tool has rabbitmqctl
}

func newSwapRig(t testing.TB) *swapRig { return newSwapRigAt(t, "/") }

// newSwapRigAt works in a vhost, which is there.
func newSwapRigAt(t testing.TB, vhost string) *swapRig {
	b := needPlugin(t)
	at := withVhost(t, b.URL(), vhost)
	user := rabbittest.NewRigAt(t, b, at)
	conn, err := broker.Dial(t.Context(), broker.Options{URL: at, Name: t.Name(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	api, prefix := inventoryOf(t, management(t, b), vhost), user.Prefix
	r := &swapRig{user, conn, api, at, vhost, prefix, prefix + ` it's "E"/é`, false}
	t.Cleanup(func() {
		w := swap.Wire{Conn: conn}
		for _, q := range []string{record.Queue(prefix, r.name), r.served().Queue, r.served().Back, r.served().Parked} {
			_ = w.DeleteQueue(context.Background(), q)
		}
		for _, x := range append(entry.Spec{Name: r.name, Type: "direct"}.Side(prefix).AllExchanges(),
			topology.Exchange{Name: r.name}, topology.Exchange{Name: record.Behind(prefix, r.name)}, topology.Exchange{Name: r.target()}) {
			_ = w.Perform(context.Background(), []swap.Op{{Verb: swap.Delete, Exchange: inventory.Exchange{Name: x.Name}}})
		}
	})
	return r
}

// served are the queues of delayer serve, and target is where it passes messages on.
func (r *swapRig) served() entry.Names { return entry.NamesOf(r.prefix, r.name) }
func (r *swapRig) target() string      { return swap.DefaultTarget(r.name) }

// tool runs f with a swapper that holds the lock.
func (r *swapRig) tool(f func(*swap.Swapper)) {
	r.Helper()
	journal, err := record.Open(r.Context(), r.conn, r.prefix, r.name)
	require.NoError(r, err)
	defer func() { require.NoError(r, journal.Close()) }()
	s := &swap.Swapper{
		Prefix: r.prefix, Exchange: r.name, Vhost: r.vhost, API: r.api, Broker: swap.Wire{Conn: r.conn}, Journal: journal, Now: time.Now,
		Plugin: func(ctx context.Context) error {
			return swap.HasPlugin(ctx, broker.Options{URL: r.url, Logger: slog.New(slog.DiscardHandler)}, r.prefix+".trial")
		},
	}
	if r.onNode {
		s.Node = r.control()
	}
	f(s)
}

// switches changes the exchange.
func (r *swapRig) switches(mode record.Mode) (result swap.Result) {
	r.Helper()
	r.tool(func(s *swap.Swapper) {
		var err error
		result, err = s.Switch(r.Context(), mode, "")
		require.NoError(r, err)
	})
	return result
}

func (r *swapRig) rollsBack() (result swap.Result) {
	r.Helper()
	r.tool(func(s *swap.Swapper) {
		var err error
		result, err = s.Rollback(r.Context())
		require.NoError(r, err)
	})
	return result
}

func (r *swapRig) control() *node.Control {
	r.Helper()
	c, err := node.New(rabbitmqctl(r.TB, r.Broker))
	require.NoError(r, err)
	return c
}

// delayed declares the exchange.
func (r *swapRig) delayed(kind string, autoDelete bool, args amqp091.Table) {
	r.Helper()
	all := amqp091.Table{"x-delayed-type": kind}
	for k, v := range args {
		all[k] = v
	}
	require.NoError(r, r.Ch.ExchangeDeclare(r.name, "x-delayed-message", true, autoDelete, false, false, all))
}

// queue declares one, bound to an exchange.
func (r *swapRig) queue(hint, exchange, key string, args amqp091.Table) string {
	r.Helper()
	name := r.Queue(hint, nil)
	r.Bind(name, key, exchange, args)
	return name
}

func (r *swapRig) exchange(hint, kind string, autoDelete bool) string {
	r.Helper()
	name := r.prefix + "-" + hint
	require.NoError(r, r.Ch.ExchangeDeclare(name, kind, true, autoDelete, false, false, nil))
	r.Cleanup(func() { r.Fresh(func(ch *amqp091.Channel) error { return ch.ExchangeDelete(name, false, false) }) })
	return name
}

// publish sends messages with a delay, or none with 0, and waits for their confirms.
func (r *swapRig) publish(exchange, key string, n int, delay time.Duration, headers amqp091.Table) {
	r.Helper()
	h := amqp091.Table{}
	for k, v := range headers {
		h[k] = v
	}
	if delay > 0 {
		h["x-delay"] = delay.Milliseconds()
	}
	messages := make([]amqp091.Publishing, n)
	for i := range messages {
		messages[i] = amqp091.Publishing{
			Headers: h, MessageId: fmt.Sprint(delay, i), DeliveryMode: amqp091.Persistent, Timestamp: time.Now(), Body: []byte("body"),
		}
	}
	r.PublishDelayed(exchange, key, messages...)
}

func (r *swapRig) depth(queue string) int {
	r.Helper()
	d, err := swap.Wire{Conn: r.conn}.Depth(r.Context(), queue)
	require.NoError(r, err)
	return d.Messages
}

// arrives waits until a queue holds so many messages.
func (r *swapRig) arrives(queue string, n int) {
	r.Helper()
	require.Eventually(r, func() bool { return r.depth(queue) >= n }, time.Minute, 20*time.Millisecond)
	require.Equal(r, n, r.depth(queue))
}

func (r *swapRig) definition() inventory.Definition {
	r.Helper()
	d, err := r.api.Definition(r.Context(), r.name)
	require.NoError(r, err)
	return d
}

// delivers reports whether the plugin delivers what an exchange routes by a type.
func (r *swapRig) delivers(kind string) bool {
	r.Helper()
	return kind != "topic" || !inKhepri(r.TB, r.Broker)
}

// inKhepri reports whether the broker keeps its exchanges in Khepri. A topic exchange of the plugin
// has no table there, and what is due is dropped.
func inKhepri(t testing.TB, b *rabbit.Broker) bool {
	t.Helper()
	v, err := apiOf(t, b, "/").Look(t.Context(), userOf(t, b), nil)
	require.NoError(t, err)
	return v.Enabled(inventory.Khepri)
}

// topicOrFanout is the type of an exchange of the plugin from which the broker delivers: in Khepri
// that is not topic.
func topicOrFanout(t testing.TB) string {
	t.Helper()
	if inKhepri(t, needPlugin(t)) {
		return "fanout"
	}
	return "topic"
}
