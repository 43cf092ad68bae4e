package migrate_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// A swapRig is a user's exchange in a vhost, and what the tool has.
type swapRig struct {
	*rabbittest.Rig
	broker       *broker.Control
	node         swap.Node
	api          *inventory.API
	vhost        string
	prefix, name string
}

func newSwapRig(t testing.TB) *swapRig { return newSwapRigAt(t, "/") }

// newSwapRigAt works in a vhost, which is there.
func newSwapRigAt(t testing.TB, vhost string) *swapRig {
	b := needPlugin(t)
	at := withVhost(t, b.URL(), vhost)
	user := rabbittest.NewRigAt(t, b, at)
	conn, err := broker.Dial(t.Context(), broker.Options{URL: at, Name: t.Name(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	control := broker.NewControl(conn)
	ctl, err := node.New(rabbitmqctl(t, b))
	require.NoError(t, err)
	api, prefix := inventoryOf(t, management(t, b), vhost), user.Prefix
	r := &swapRig{user, control, ctl, api, vhost, prefix, prefix + ` it's "E"/é`}
	t.Cleanup(func() {
		defer control.Close()
		marker := entry.Spec{Name: record.Name(prefix, r.name), To: record.Hold(prefix, r.name)}
		for _, spec := range []entry.Spec{{Name: r.name, Type: "direct", To: r.target()}, marker} {
			_ = entry.Remove(context.Background(), control, prefix, spec)
		}
	})
	return r
}

// served are the queues of delayer serve, and target is where it passes messages on.
func (r *swapRig) served() entry.Names { return entry.NamesOf(r.prefix, r.name) }
func (r *swapRig) target() string      { return swap.DefaultTarget(r.name) }

// swapperOf works on an exchange, of which it holds the lock until release is called.
func swapperOf(t testing.TB, control *broker.Control, ctl swap.Node, api *inventory.API, vhost, prefix, exchange string) (s *swap.Swapper, release func()) {
	t.Helper()
	const noPatience = 0
	lock, err := record.Take(t.Context(), control.Conn(), prefix, exchange, noPatience)
	require.NoError(t, err)
	return &swap.Swapper{Prefix: prefix, Exchange: exchange, Vhost: vhost, API: api, Control: control, Node: ctl, Lock: lock}, lock.Release
}

// trySwitch changes the exchange, and may be refused.
func (r *swapRig) trySwitch(mode record.Mode) (swap.Result, error) {
	r.Helper()
	s, release := swapperOf(r.TB, r.broker, r.node, r.api, r.vhost, r.prefix, r.name)
	defer release()
	return s.Switch(r.Context(), mode, "")
}

func (r *swapRig) switches(mode record.Mode) swap.Result {
	r.Helper()
	result, err := r.trySwitch(mode)
	require.NoError(r, err)
	return result
}

func (r *swapRig) tryRollback() error {
	r.Helper()
	s, release := swapperOf(r.TB, r.broker, r.node, r.api, r.vhost, r.prefix, r.name)
	defer release()
	_, err := s.Rollback(r.Context())
	return err
}

func (r *swapRig) rollsBack() {
	r.Helper()
	require.NoError(r, r.tryRollback())
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

// depth is how many messages a queue holds; one that does not exist holds none.
func (r *swapRig) depth(queue string) int {
	r.Helper()
	q, err := r.broker.Queue(r.Context(), queue)
	if broker.Code(err) != amqp091.NotFound {
		require.NoError(r, err)
	}
	return q.Messages
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

// recorded reports whether the exchange has a record.
func (r *swapRig) recorded() bool {
	r.Helper()
	_, found, err := record.Read(r.Context(), r.api, r.prefix, r.name)
	require.NoError(r, err)
	return found
}

// delivers reports whether the plugin delivers what an exchange routes by a type.
func (r *swapRig) delivers(kind string) bool {
	r.Helper()
	return kind != "topic" || !inKhepri(r.TB, r.Broker)
}

// inLadder takes all messages out of a Delayer's queues. The queue of misrouted messages has a single
// active consumer, and refuses that.
func inLadder(r *rabbittest.Rig, cfg backend.Config) (all []amqp091.Delivery) {
	r.Helper()
	plan, err := backend.Topology(cfg)
	require.NoError(r, err)
	for _, q := range plan.Queues {
		for q.Args["x-single-active-consumer"] != true {
			got, ok, err := r.Ch.Get(q.Name, true)
			require.NoError(r, err)
			if !ok {
				break
			}
			all = append(all, got)
		}
	}
	return all
}

// inKhepri reports whether the broker keeps its exchanges in Khepri. A topic exchange of the plugin
// has no table there, and what is due is dropped.
func inKhepri(t testing.TB, b *rabbit.Broker) bool {
	t.Helper()
	v, err := apiOf(t, b, "/").Look(t.Context())
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
