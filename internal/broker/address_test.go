package broker

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

func TestAddresses(t *testing.T) {
	for list, want := range map[string]string{
		"amqp://u:p@one/": "amqp://one:5672/",
		" amqp://one/v , amqps://two:99/v,amqp://[::1]/v ":    "amqp://one:5672/v, amqps://two:99/v, amqp://[::1]:5672/v",
		"amqp://u:comma,in,it@one/,amqp://u:p%2Camqp@two:1/":  "amqp://one:5672/, amqp://two:1/",
		"amqp://one?heartbeat=5,amqp://two?frame_max=131072":  "amqp://one:5672/, amqp://two:5672/",
		"amqp://guest:other@one/,\n  amqp://guest:guest@two/": "amqp://one:5672/, amqp://two:5672/",
	} {
		all, err := parseURLs(list)
		require.NoError(t, err, list)
		require.Equal(t, want, endpoints(all), list)
	}
	for list, want := range map[string]string{
		"":                                   "empty",
		"amqp://one/a,amqp://one/b":          `the addresses differ in vhost or user name (amqp://one:5672/a and amqp://one:5672/b)`,
		"amqp://a:p@one/,amqp://b:p@two/":    "list the nodes of one cluster",
		"amqp://u:hunter2@one:5672,two:5672": "write each address in full",
		"amqp://u:hunter2@one/,http://two/":  `scheme "http" is not AMQP`,
		"amqp://u:hunter2@one/,":             "nothing after a comma",
		"amqp://u:hun%ter2@one/":             "percent-encode reserved characters",
		"amqp://u:hunter2@one:port/":         "malformed",
	} {
		_, err := parseURLs(list)
		require.ErrorIs(t, err, delayer.ErrConfig, list)
		require.ErrorContains(t, err, want, list)
		require.NotContains(t, err.Error(), "ter2", list)
	}
}

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

func TestTheFirstAddressThatAnswersIsTaken(t *testing.T) {
	var log rabbittest.Logbook
	o := options(t, at(t, dead, ""))
	o.Logger = log.Logger()
	c, err := Dial(within(t), o)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, c.all[1].String(), c.Endpoint())
	require.Contains(t, log.String(), "an address of the broker does not answer")
	require.Contains(t, log.String(), dead)
	require.NotContains(t, log.String(), "guest")
}

func TestNoAddressAnswers(t *testing.T) {
	o := options(t, at(t, dead, "127.0.0.1:2"))
	_, err := Dial(within(t), o)
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	for _, want := range []string{"amqp://127.0.0.1:1/: dial tcp", "; amqp://127.0.0.1:2/: dial tcp", "is RabbitMQ running there"} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "guest")

	u, err := url.Parse(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	u.User = url.UserPassword(u.User.Username(), "hunter2")
	wrong := u.String()
	_, err = Dial(within(t), options(t, wrong+","+wrong))
	require.ErrorIs(t, err, delayer.ErrAccess, "all say the same")
	_, err = Dial(within(t), options(t, wrong+","+at(t, dead)))
	require.ErrorIs(t, err, delayer.ErrUnavailable, "the other may come back")
	require.NotContains(t, err.Error(), "hunter2")
}

// TestAMuteHostLeavesTimeForTheOthers: one that accepts and says nothing costs its share of the time, no more.
func TestAMuteHostLeavesTimeForTheOthers(t *testing.T) {
	soon := func(d time.Duration, left int) time.Duration {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return time.Until(attemptDeadline(ctx, left)).Round(100 * time.Millisecond)
	}
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, 4*time.Second, soon(12*time.Second, 3))
		require.Equal(t, 12*time.Second, soon(12*time.Second, 1))
		require.Equal(t, dialTimeout/3, soon(time.Hour, 2))
		require.Equal(t, dialTimeout, soon(time.Hour, 1))
		require.Equal(t, dialTimeout, time.Until(attemptDeadline(context.Background(), 1)))
	})
}

// TestALostConnectionGoesToTheNextAddress, and so around.
func TestALostConnectionGoesToTheNextAddress(t *testing.T) {
	first, cutFirst := forward(t)
	second, cutSecond := forward(t)
	c, err := Dial(within(t), options(t, at(t, first, second)))
	require.NoError(t, err)
	defer c.Close()
	require.Contains(t, c.Endpoint(), first)
	for _, step := range []struct {
		cut  func()
		next string
	}{{cutFirst, second}, {cutSecond, first}} {
		_, changed := c.now()
		step.cut()
		<-changed
		_, err := c.Channel(within(t))
		require.NoError(t, err)
		require.Contains(t, c.Endpoint(), step.next)
	}
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
