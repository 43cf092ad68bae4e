package broker_test

import (
	"context"
	"net/url"
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
