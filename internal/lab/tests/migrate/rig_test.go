// Package migrate_test tests each step of `delayer migrate` on a real broker with the plugin.
package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
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
	managementapi "github.com/delayer-go/delayer/internal/lib/management"
)

// managementPlugin gives the broker its management API.
const managementPlugin = "rabbitmq_management"

func TestMain(m *testing.M) {
	rabbittest.Main(m, rabbit.Options{Plugins: []string{rabbittest.DelayedMessages, managementPlugin}})
}

// needPlugin returns the package's broker if it has the plugin, and skips the test by name
// otherwise.
func needPlugin(t testing.TB) *rabbit.Broker {
	t.Helper()
	return rabbittest.NeedPlugin(t, rabbittest.DelayedMessages)
}

// rabbitmqctl is a command line that evaluates programs on the broker's node, as --rabbitmqctl
// takes it. It stands for rabbitmqctl, which takes a hundred times as long. Without one, or without
// a management API, the test is skipped.
func rabbitmqctl(t testing.TB, b *rabbit.Broker) string {
	t.Helper()
	if b.EvalCommand() == "" || b.Management() == "" {
		rabbittest.Skipf(t, "the broker has no rabbitmqctl or no management API that is known")
	}
	return b.EvalCommand()
}

type rig struct {
	*rabbittest.Rig
	broker  *broker.Control
	control *node.Control
	node    swap.Node // the same, or what stands before it
	api     *inventory.API
	vhost   string
	name    string // of the exchange
	queue   string // of newDelayed
}

func newRig(t testing.TB) *rig { return newRigAt(t, needPlugin(t), "/") }

// newRigAt works in a vhost, which is made. The exchange's name is hard to write into a program.
func newRigAt(t testing.TB, b *rabbit.Broker, vhost string) *rig {
	ctl, err := node.New(rabbitmqctl(t, b))
	require.NoError(t, err)
	at := b.URL()
	if vhost != "/" {
		if !b.Owned() {
			rabbittest.Skipf(t, "needs a broker of its own to make a vhost")
		}
		u, err := url.Parse(at)
		require.NoError(t, err)
		change(t, b, http.MethodPut, nil, "vhosts", vhost)
		everything := map[string]string{"configure": ".*", "write": ".*", "read": ".*"}
		change(t, b, http.MethodPut, everything, "permissions", vhost, u.User.Username())
		at = u.Scheme + "://" + u.User.String() + "@" + u.Host + "/" + url.PathEscape(vhost)
	}
	user := rabbittest.NewRigAt(t, b, at)
	conn, err := broker.Dial(t.Context(), broker.Options{URL: at, Name: t.Name(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	const noTimeout = 0
	client, err := managementapi.New(b.Management(), noTimeout, &http.Transport{DisableKeepAlives: true})
	require.NoError(t, err)
	r := &rig{
		Rig: user, broker: broker.NewControl(conn), control: ctl, node: ctl, api: inventory.New(client, vhost),
		vhost: vhost, name: user.Prefix + ` it's \ "E"/é`,
	}
	// A broker that takes AMQP connections since a moment may still answer 500 there.
	require.Eventually(t, func() bool { return r.api.Reachable(t.Context()) == nil }, time.Minute, 100*time.Millisecond)
	control := r.broker
	t.Cleanup(func() {
		defer control.Close()
		marker := entry.Spec{Name: record.Name(r.Prefix, r.name), To: record.Hold(r.Prefix, r.name)}
		for _, spec := range []entry.Spec{{Name: r.name, Type: "direct", To: r.target()}, marker} {
			_ = entry.Remove(context.Background(), control, r.Prefix, spec)
		}
	})
	return r
}

// newDelayed declares an exchange of the plugin, with a queue behind it.
func newDelayed(t testing.TB, kind string) *rig {
	t.Helper()
	r := newRig(t)
	r.delayed(kind, false, nil)
	r.queue = r.bound("queue", r.name, "#", nil)
	return r
}

// change asks the management API to make or delete an object. rabbitmqctl takes a hundred times as
// long.
func change(t testing.TB, b *rabbit.Broker, method string, body any, path ...string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	at, err := url.Parse(b.Management())
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

// served are the queues of delayer serve, and target is where it passes messages on.
func (r *rig) served() entry.Names { return entry.NamesOf(r.Prefix, r.name) }
func (r *rig) target() string      { return record.Target(r.name) }

// swapper works on the exchange, of which it holds the lock until release is called.
func (r *rig) swapper() (s *swap.Swapper, release func()) {
	r.Helper()
	const noPatience = 0
	lock, err := record.Take(r.Context(), r.broker.Conn(), r.Prefix, r.name, noPatience)
	require.NoError(r, err)
	return &swap.Swapper{
		Prefix: r.Prefix, Exchange: r.name, Vhost: r.vhost, API: r.api, Control: r.broker, Node: r.node, Lock: lock,
	}, lock.Release
}

// trySwitch changes the exchange, and may be refused.
func (r *rig) trySwitch(mode record.Mode) (swap.Result, error) {
	r.Helper()
	s, release := r.swapper()
	defer release()
	return s.Switch(r.Context(), mode)
}

func (r *rig) switches(mode record.Mode) swap.Result {
	r.Helper()
	result, err := r.trySwitch(mode)
	require.NoError(r, err)
	return result
}

func (r *rig) tryRollback() error {
	r.Helper()
	s, release := r.swapper()
	defer release()
	_, err := s.Rollback(r.Context())
	return err
}

func (r *rig) delayed(kind string, autoDelete bool, args amqp091.Table) {
	r.Helper()
	all := amqp091.Table{"x-delayed-type": kind}
	for k, v := range args {
		all[k] = v
	}
	require.NoError(r, r.Ch.ExchangeDeclare(r.name, "x-delayed-message", true, autoDelete, false, false, all))
}

// bound is a queue that is bound to an exchange.
func (r *rig) bound(hint, exchange, key string, args amqp091.Table) string {
	r.Helper()
	name := r.Queue(hint, nil)
	r.Bind(name, key, exchange, args)
	return name
}

// exclusive binds an exclusive queue to the exchange.
func (r *rig) exclusive() string {
	r.Helper()
	q, err := r.Ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(r, err)
	r.Bind(q.Name, "#", r.name, nil)
	return q.Name
}

// publish sends messages with a delay, or none with 0, and waits for their confirms.
func (r *rig) publish(exchange, key string, n int, delay time.Duration, headers amqp091.Table) {
	r.Helper()
	messages := make([]amqp091.Publishing, n)
	for i := range messages {
		messages[i] = asked(delay, amqp091.Publishing{DeliveryMode: amqp091.Persistent, Headers: headers})
	}
	r.PublishDelayed(exchange, key, messages...)
}

func asked(delay time.Duration, msg amqp091.Publishing) amqp091.Publishing {
	headers := amqp091.Table{}
	for k, v := range msg.Headers {
		headers[k] = v
	}
	if delay > 0 {
		headers["x-delay"] = delay.Milliseconds()
	}
	msg.Headers = headers
	return msg
}

// depth is how many messages a queue holds; one that does not exist holds none.
func (r *rig) depth(queue string) int {
	r.Helper()
	q, err := r.broker.Queue(r.Context(), queue)
	if broker.Code(err) != amqp091.NotFound {
		require.NoError(r, err)
	}
	return q.Messages
}

func (r *rig) arrives(queue string, n int) {
	r.Helper()
	require.Eventually(r, func() bool { return r.depth(queue) >= n }, time.Minute, 20*time.Millisecond)
	require.Equal(r, n, r.depth(queue))
}

func (r *rig) receive(in <-chan amqp091.Delivery, n int) (got []amqp091.Delivery) {
	r.Helper()
	for len(got) < n {
		got = append(got, rabbittest.Next(r, in))
	}
	return got
}

func (r *rig) definition() inventory.Definition {
	r.Helper()
	d, err := r.api.Definition(r.Context(), r.name)
	require.NoError(r, err)
	return d
}

func (r *rig) recorded() bool {
	r.Helper()
	_, found, err := record.Read(r.Context(), r.api, r.Prefix, r.name)
	require.NoError(r, err)
	return found
}

// takeAll takes all messages out of a Delayer's queues. The queue of misrouted messages has a single
// active consumer, and refuses that.
func takeAll(r *rabbittest.Rig, cfg backend.Config) (all []amqp091.Delivery) {
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

// delivers reports whether the plugin delivers what an exchange routes by a type. A topic exchange of
// the plugin has no table in Khepri, and what is due is dropped.
func (r *rig) delivers(kind string) bool {
	r.Helper()
	v, err := r.api.Look(r.Context())
	require.NoError(r, err)
	return kind != "topic" || !v.Enabled(inventory.Khepri)
}

// topicOrFanout is the type of an exchange of the plugin from which the broker delivers.
func topicOrFanout(t testing.TB) string {
	t.Helper()
	if newRig(t).delivers("topic") {
		return "topic"
	}
	return "fanout"
}
