package broker_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

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
