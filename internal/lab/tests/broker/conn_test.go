package broker_test

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

func TestDial_Errors(t *testing.T) {
	t.Parallel()
	good := rabbittest.Broker(t).URL()
	with := func(change func(*url.URL)) string {
		u, err := url.Parse(good)
		require.NoError(t, err)
		change(u)
		return u.String()
	}
	refused := with(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "hunter2") })
	for name, c := range map[string]struct {
		url  string
		kind error
		want string
	}{
		"password": {refused, delayer.ErrAccess, "check user name and password"},
		"vhost":    {with(func(u *url.URL) { u.Path = "/nowhere" }), delayer.ErrAccess, "virtual host"},
		"tls":      {with(func(u *url.URL) { u.Scheme = "amqps" }), delayer.ErrUnavailable, "does the port match the scheme"},
		"two ports": {
			at(t, dead, "127.0.0.1:2"), delayer.ErrUnavailable,
			"amqp://127.0.0.1:1/: dial tcp 127.0.0.1:1: connect: connection refused; amqp://127.0.0.1:2/: dial tcp",
		},
		"password, twice":              {refused + "," + refused, delayer.ErrAccess, "no address answers"},
		"password, and another's port": {refused + "," + at(t, dead), delayer.ErrUnavailable, "no address answers"}, // which may come back
	} {
		t.Run(name, func(t *testing.T) {
			_, err := broker.Dial(within(t), options(t, c.url))
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "guest:")
		})
	}
}

// TestControl_LostEachTime: what makes the broker close the connection is not tried all the time.
func TestControl_LostEachTime(t *testing.T) {
	t.Parallel()
	_, c := open(t, rabbittest.Broker(t).URL(), noReset)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var calls atomic.Int64
	err := c.Do(ctx, func(*amqp091.Channel) error {
		calls.Add(1)
		return &amqp091.Error{Code: amqp091.InternalError, Reason: "INTERNAL_ERROR", Server: true}
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, broker.Explain("declare", "test", `queue "q"`, err),
		`declare test queue "q": not sent: context deadline exceeded, and the broker closed the connection: `)
	require.ErrorContains(t, broker.Explain("declare", "test", `queue "q"`, err), "541 INTERNAL_ERROR (the broker's log says why)")
	t.Logf("%d calls", calls.Load())
	require.LessOrEqual(t, calls.Load(), int64(8)) // two at once, and after 200, 400, 800 ms and so on, less up to half
}

// TestConn_FullSocket: a connection is lost while a message is being written into a socket that is
// full. Nobody waits until that write has ended by itself.
func TestConn_FullSocket(t *testing.T) {
	t.Parallel()
	proxy, address := proxied(t)
	o := options(t, at(t, address)+"?heartbeat=3")
	down := make(chan struct{}, 100)
	o.Observer.Connection = func(e delayer.ConnectionEvent) {
		if e.Now == delayer.ConnectionDown {
			down <- struct{}{}
		}
	}
	conn, err := broker.Dial(within(t), o)
	require.NoError(t, err)
	p := broker.NewPublisher("test", noReset, conn)
	require.ErrorIs(t, p.Publish(within(t), to("nowhere")), delayer.ErrUnroutable, "it has its channel")
	proxy.Set(faults.Slow)
	const moreThanItTakes = 32 << 20
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	published := make(chan error, 1)
	go func() { published <- p.Publish(ctx, sized("nowhere", moreThanItTakes)) }()
	<-down
	cancel()
	require.Error(t, <-published)
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close waits for the socket")
	}
}

// dead is an address where nothing listens.
const dead = "127.0.0.1:1"

func at(t testing.TB, hosts ...string) string {
	t.Helper()
	var list []string
	for _, host := range hosts {
		u, err := url.Parse(rabbittest.Broker(t).URL())
		require.NoError(t, err)
		if host != "" {
			u.Host = host
		}
		list = append(list, u.String())
	}
	return strings.Join(list, ",")
}

// TestConn_Addresses: of several addresses the first that answers is taken, then the next, and so
// around. An Observer sees each state, in their order.
func TestConn_Addresses(t *testing.T) {
	t.Parallel()
	one, first := proxied(t)
	other, second := proxied(t)
	var log rabbittest.Logbook
	events := make(chan delayer.ConnectionEvent, 100)
	o := options(t, at(t, dead, first, second))
	o.Logger, o.Observer.Connection = log.Logger(), func(e delayer.ConnectionEvent) { events <- e }
	c, err := broker.Dial(within(t), o)
	require.NoError(t, err)
	expect := func(was, now delayer.ConnectionState) {
		t.Helper()
		select {
		case e := <-events:
			require.Equal(t, []delayer.ConnectionState{was, now}, []delayer.ConnectionState{e.Was, e.Now})
			require.Equal(t, now == delayer.ConnectionDown, e.Err != nil, "why it was lost")
			require.Equal(t, []string{"test", t.Name()}, []string{e.Backend, e.Name})
		case <-within(t).Done():
			t.Fatal("no event")
		}
	}
	expect(delayer.ConnectionClosed, delayer.ConnectionUp)
	require.Contains(t, log.String(), "an address of the broker does not answer")
	require.Contains(t, log.String(), dead)
	require.NotContains(t, log.String(), "guest")
	require.Contains(t, c.Endpoint(), first)
	for _, step := range []struct {
		cut  func()
		next string
	}{{one.Cut, second}, {other.Cut, first}} {
		step.cut()
		expect(delayer.ConnectionUp, delayer.ConnectionDown)
		expect(delayer.ConnectionDown, delayer.ConnectionUp)
		require.Contains(t, c.Endpoint(), step.next)
		_, err := c.Channel(within(t))
		require.NoError(t, err)
	}
	c.Close()
	expect(delayer.ConnectionUp, delayer.ConnectionClosed)
	require.Empty(t, events)
}

// proxied is a proxy in front of the broker, and its host.
func proxied(t testing.TB) (proxy *faults.Proxy, host string) {
	t.Helper()
	proxy, err := faults.NewProxy(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL("amqp://"))
	require.NoError(t, err)
	return proxy, u.Host
}

// TestConsume_EndsWithWhatIsAcknowledged: a channel of a quorum queue keeps acknowledgements back
// while 32 of them are not stored yet. It must not be closed before they are.
func TestConsume_EndsWithWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	queue := r.Queue("q", amqp091.Table{"x-queue-type": "quorum"})
	conn, err := broker.Dial(within(t), options(t, r.Broker.URL()))
	require.NoError(t, err)
	defer conn.Close()
	const many, rounds = 1000, 5 // a fast broker stores them in time now and then
	for range rounds {
		r.Publish("", queue, make([]amqp091.Publishing, many)...)
		ctx, stop := context.WithCancel(within(t))
		broker.Consume(ctx, conn, broker.Consuming{
			Queue: queue, Prefetch: many,
			Serve: func(_ context.Context, messages <-chan amqp091.Delivery) {
				var all []amqp091.Delivery
				for range many {
					all = append(all, <-messages)
				}
				for _, d := range all {
					require.NoError(t, d.Ack(false))
				}
				stop()
			},
		})
		require.Eventually(t, func() bool {
			q, err := r.Ch.QueueDeclarePassive(queue, true, false, false, waitForAnswer, nil)
			require.NoError(t, err)
			require.Zero(t, q.Messages, "they were acknowledged, and come again")
			return q.Consumers == 0
		}, time.Minute, 10*time.Millisecond)
	}
}

// TestEndActive_SilentQueue: whoever waits for a consumer's end hears of it, however long the queue
// takes to answer.
func TestEndActive_SilentQueue(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	queue := r.Queue("q", amqp091.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	conn, err := broker.Dial(within(t), options(t, r.Broker.URL()))
	require.NoError(t, err)
	defer conn.Close()
	ch, err := conn.Channel(within(t))
	require.NoError(t, err)
	_, err = broker.Begin(ch, queue, "first", 1, nil)
	require.NoError(t, err)
	resume := rabbittest.Suspend(t, r.Broker, queue)
	const long = 6 * time.Second
	time.AfterFunc(long, resume)
	require.True(t, broker.EndActive(ch, queue))
}
