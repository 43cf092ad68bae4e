package rabbittest

import (
	"context"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// What the bare booleans of amqp091-go mean here.
const (
	durable, autoDelete, exclusive, internal = true, false, false, false
	noWait, noLocal, autoAck                 = false, false, true
	ifUnused, ifEmpty                        = false, false
	mandatory, immediate                     = true, false
)

// Patience bounds what hangs, and measures nothing. On a slow machine that tests much at a time a
// minute passes soon.
const Patience = 3 * time.Minute

// A Rig is the user of a broker in a test: a connection, what is declared over it, and what
// arrives. All is gone when the test ends. What fails ends the test.
type Rig struct {
	testing.TB
	Broker *rabbit.Broker
	Prefix string // begins the names of the test's exchanges and queues
	Conn   *amqp091.Connection
	Ch     *amqp091.Channel
	url    string
	spare  *amqp091.Connection // of Fresh
}

// NewRig connects to a broker.
func NewRig(t testing.TB, b *rabbit.Broker) *Rig {
	t.Helper()
	return NewRigAt(t, b, b.URL())
}

// NewRigAt connects to a broker by another address of its, as in a virtual host.
func NewRigAt(t testing.TB, b *rabbit.Broker, url string) *Rig {
	t.Helper()
	r := &Rig{TB: t, Broker: b, Prefix: Prefix(t)}
	r.Connect(url)
	return r
}

// Connect replaces the connection and the channel, as after the old ones were lost.
func (r *Rig) Connect(url string) {
	r.Helper()
	r.url, r.spare = url, nil
	var err error
	r.Conn, err = r.dial()
	require.NoError(r, err)
	r.Ch = r.Channel()
}

func (r *Rig) dial() (*amqp091.Connection, error) {
	conn, err := amqpclient.Dial(context.Background(), r.url, r.Name())
	if err == nil {
		const goodbye = 5 * time.Second // to a broker that the test has stopped
		r.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(goodbye)) })
	}
	return conn, err
}

// In is the rig in a subtest: the same connection, with a channel of its own.
func (r *Rig) In(t testing.TB) *Rig {
	t.Helper()
	here := *r
	here.TB = t
	here.Ch = here.Channel()
	t.Cleanup(func() { _ = here.Ch.Close() }) // fails if the test has lost it
	return &here
}

// Channel opens another channel.
func (r *Rig) Channel() *amqp091.Channel {
	r.Helper()
	ch, err := r.Conn.Channel()
	require.NoError(r, err)
	return ch
}

// Fresh runs f on a channel of its own, over another connection than Conn: what f may break is not
// what the test uses. It tells nothing of errors, since what is to be deleted may be gone.
func (r *Rig) Fresh(f func(ch *amqp091.Channel) error) {
	if r.spare == nil || r.spare.IsClosed() {
		conn, err := r.dial()
		if err != nil {
			return
		}
		r.spare = conn
	}
	if ch, err := r.spare.Channel(); err == nil && f(ch) == nil {
		_ = ch.Close() // an error has closed it
	}
}

// Queue declares a queue, <prefix>-<hint>.
func (r *Rig) Queue(hint string, args amqp091.Table) (name string) {
	r.Helper()
	name = r.Prefix + "-" + hint
	r.Declare(name, args)
	return name
}

// Declare declares a queue of any name.
func (r *Rig) Declare(name string, args amqp091.Table) {
	r.Helper()
	_, err := r.Ch.QueueDeclare(name, durable, autoDelete, exclusive, noWait, args)
	require.NoError(r, err)
	r.Cleanup(func() {
		r.Fresh(func(ch *amqp091.Channel) error { _, err := ch.QueueDelete(name, ifUnused, ifEmpty, noWait); return err })
	})
}

// Exchange declares an exchange, <prefix>-<hint>.
func (r *Rig) Exchange(hint, kind string, args amqp091.Table) (name string) {
	r.Helper()
	name = r.Prefix + "-" + hint
	require.NoError(r, r.Ch.ExchangeDeclare(name, kind, durable, autoDelete, internal, noWait, args))
	r.Cleanup(func() { r.Fresh(func(ch *amqp091.Channel) error { return ch.ExchangeDelete(name, ifUnused, noWait) }) })
	return name
}

// Bind binds a queue.
func (r *Rig) Bind(queue, key, exchange string, args amqp091.Table) {
	r.Helper()
	require.NoError(r, r.Ch.QueueBind(queue, key, exchange, noWait, args))
}

// Publish publishes messages to a queue, and returns when the broker has them.
func (r *Rig) Publish(exchange, key string, messages ...amqp091.Publishing) {
	r.Helper()
	require.True(r, r.Stored(exchange, key, messages...), "the broker refuses a message, or it is unroutable")
}

// Stored publishes messages, and reports whether the broker has them all.
func (r *Rig) Stored(exchange, key string, messages ...amqp091.Publishing) bool {
	r.Helper()
	return r.send(exchange, key, mandatory, messages)
}

// PublishDelayed publishes messages to an exchange of the plugin, which returns a mandatory message
// that it delays.
func (r *Rig) PublishDelayed(exchange, key string, messages ...amqp091.Publishing) {
	r.Helper()
	require.True(r, r.send(exchange, key, !mandatory, messages), "the broker refuses a message")
}

func (r *Rig) send(exchange, key string, mandatory bool, messages []amqp091.Publishing) bool {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), Patience)
	defer cancel()
	ch := r.Channel()
	defer func() { _ = ch.Close() }() // fails if there is no such exchange
	require.NoError(r, ch.Confirm(noWait))
	returned := ch.NotifyReturn(make(chan amqp091.Return, len(messages)))
	var confirms []*amqp091.DeferredConfirmation
	for _, msg := range messages {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
		if err != nil {
			return false
		}
		confirms = append(confirms, confirm)
	}
	for _, confirm := range confirms {
		if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
			return false
		}
	}
	return len(returned) == 0 // a return comes before its confirm
}

// Consume returns what arrives in a queue, acknowledged.
func (r *Rig) Consume(queue string) <-chan amqp091.Delivery {
	r.Helper()
	in, _ := r.ConsumeUntil(queue)
	return in
}

// ConsumeUntil is Consume until cancel is called. The channel is closed when all has been received
// that was sent until then.
func (r *Rig) ConsumeUntil(queue string) (in <-chan amqp091.Delivery, cancel func()) {
	r.Helper()
	const tag = "rig"
	ch := r.Channel()
	in, err := ch.Consume(queue, tag, autoAck, exclusive, noLocal, noWait, nil)
	require.NoError(r, err)
	return in, func() { require.NoError(r, ch.Cancel(tag, noWait)) }
}

// Count is how many messages wait in a queue that nobody holds.
func (r *Rig) Count(queue string) int {
	r.Helper()
	ch := r.Channel()
	q, err := ch.QueueDeclarePassive(queue, durable, autoDelete, exclusive, noWait, nil)
	require.NoError(r, err)
	_ = ch.Close()
	return q.Messages
}

// Take waits for the next message of a queue, which may not exist yet, and takes it.
func (r *Rig) Take(queue string) (d amqp091.Delivery) {
	r.Helper()
	require.Eventually(r, func() (ok bool) {
		r.Fresh(func(ch *amqp091.Channel) (err error) {
			d, ok, err = ch.Get(queue, autoAck)
			return err
		})
		return ok
	}, Patience, 20*time.Millisecond, "nothing comes into %s", queue)
	return d
}

// Cut closes the connections of the broker whose names begin with name, and waits for one if there
// is none yet.
func (r *Rig) Cut(name string) {
	r.Helper()
	require.Eventually(r, func() bool { return Cut(r.Context(), r.Broker, name) == nil }, Patience, 100*time.Millisecond)
}

// Next returns what comes next.
func Next[T any](t testing.TB, in <-chan T) (v T) {
	t.Helper()
	select {
	case v, open := <-in:
		require.True(t, open, "what should come cannot: the channel is closed")
		return v
	case <-time.After(Patience):
		require.FailNow(t, "nothing comes")
	}
	return v
}
