package broker_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// dead is an address where nothing listens.
const dead = "127.0.0.1:1"

// at is the broker's URL with other hosts, as a list.
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

func TestDial_FirstAddressThatAnswers(t *testing.T) {
	t.Parallel()
	var log rabbittest.Logbook
	o := options(t, at(t, dead, ""))
	o.Logger = log.Logger()
	c, err := broker.Dial(within(t), o)
	require.NoError(t, err)
	defer c.Close()
	require.NotContains(t, c.Endpoint(), dead)
	require.Contains(t, log.String(), "an address of the broker does not answer")
	require.Contains(t, log.String(), dead)
	require.NotContains(t, log.String(), "guest")
}

func TestDial_NoAddressAnswers(t *testing.T) {
	t.Parallel()
	o := options(t, at(t, dead, "127.0.0.1:2"))
	_, err := broker.Dial(within(t), o)
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	for _, want := range []string{"amqp://127.0.0.1:1/: dial tcp", "; amqp://127.0.0.1:2/: dial tcp", "is RabbitMQ running there"} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "guest")

	u, err := url.Parse(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	u.User = url.UserPassword(u.User.Username(), "hunter2")
	wrong := u.String()
	_, err = broker.Dial(within(t), options(t, wrong+","+wrong))
	require.ErrorIs(t, err, delayer.ErrAccess, "all say the same")
	_, err = broker.Dial(within(t), options(t, wrong+","+at(t, dead)))
	require.ErrorIs(t, err, delayer.ErrUnavailable, "the other may come back")
	require.NotContains(t, err.Error(), "hunter2")
}

// TestConn_NextAddress, and so around.
func TestConn_NextAddress(t *testing.T) {
	t.Parallel()
	first, cutFirst := forward(t)
	second, cutSecond := forward(t)
	c, err := broker.Dial(within(t), options(t, at(t, first, second)))
	require.NoError(t, err)
	defer c.Close()
	require.Contains(t, c.Endpoint(), first)
	for _, step := range []struct {
		cut  func()
		next string
	}{{cutFirst, second}, {cutSecond, first}} {
		step.cut()
		require.Eventually(t, func() bool { return strings.Contains(c.Endpoint(), step.next) }, time.Minute, 10*time.Millisecond)
		_, err := c.Channel(within(t))
		require.NoError(t, err)
	}
}

// TestConn_Observer sees each state, in their order.
func TestConn_Observer(t *testing.T) {
	t.Parallel()
	address, cut := forward(t)
	events := make(chan delayer.ConnectionEvent, 100)
	o := options(t, at(t, address))
	o.Observer.Connection = func(e delayer.ConnectionEvent) { events <- e }
	c, err := broker.Dial(within(t), o)
	require.NoError(t, err)
	cut()
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
	expect(delayer.ConnectionUp, delayer.ConnectionDown)
	expect(delayer.ConnectionDown, delayer.ConnectionUp)
	c.Close()
	expect(delayer.ConnectionUp, delayer.ConnectionClosed)
	require.Empty(t, events)
}

// forward listens in front of the broker. cut ends the connections that are there.
func forward(t testing.TB) (addr string, cut func()) {
	t.Helper()
	u, err := url.Parse(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var open []net.Conn
	cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
		open = nil
	}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", u.Host)
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				pumps.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() { _ = l.Close(); cut(); pumps.Wait() })
	return l.Addr().String(), cut
}
