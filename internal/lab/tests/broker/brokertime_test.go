package broker_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// started is a Clock at work until the test ends.
func started(t *testing.T, address, prefix string) (c *brokertime.Clock, log *rabbittest.Logbook) {
	t.Helper()
	return startedWith(t, address, prefix, func(*broker.Control) *brokertime.Shared { return nil })
}

func startedWith(t *testing.T, address, prefix string, shared func(*broker.Control) *brokertime.Shared) (c *brokertime.Clock, log *rabbittest.Logbook) {
	t.Helper()
	log = new(rabbittest.Logbook)
	dial := func() *broker.Conn {
		conn, err := broker.Dial(t.Context(), broker.Options{URL: address, Name: t.Name(), Logger: log.Logger()})
		require.NoError(t, err)
		return conn
	}
	control, publisher := broker.NewControl(dial()), broker.NewPublisher("test", func() {}, dial())
	c = brokertime.New(brokertime.Config{
		Backend: "test", Prefix: prefix, Logger: log.Logger(), Control: control, Shared: shared(control), Publish: publisher.PublishDirect,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
		publisher.Close()
		control.Close()
	})
	return c, log
}

// requireRight requires that the broker's clock is that of this machine, which it is.
func requireRight(t *testing.T, c *brokertime.Clock) (uncertainty time.Duration, ok bool) {
	t.Helper()
	before := time.Now()
	now, uncertainty, ok := c.Now()
	if ok {
		require.WithinRange(t, now, before.Add(-uncertainty), time.Now().Add(uncertainty))
	}
	return uncertainty, ok
}

// becomes waits until the time is known, to within more than least and at most most.
func becomes(t *testing.T, c *brokertime.Clock, least, most time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool {
		uncertainty, ok := requireRight(t, c)
		return ok && least < uncertainty && uncertainty <= most
	}, 3*time.Minute, time.Millisecond)
}

func TestClock_LearnsTheTime(t *testing.T) {
	t.Parallel()
	c, log := started(t, rabbittest.Broker(t).URL(), rabbittest.Prefix(t))
	becomes(t, c, 0, time.Hour)
	becomes(t, c, 0, 5*time.Millisecond)
	require.NotContains(t, log.String(), "level=WARN")
}

// TestClock_Shared: two processes ask through one queue, which is restored when it is deleted.
func TestClock_Shared(t *testing.T) {
	t.Parallel()
	b, prefix := rabbittest.Broker(t), rabbittest.Prefix(t)
	var control *broker.Control
	var restored atomic.Int32
	shared := func(c *broker.Control) *brokertime.Shared {
		control = c
		s := brokertime.Shared{Queue: prefix + ".clock", Exchange: prefix + ".enter", Key: "clock", Answers: prefix + ".clock.answers"}
		plan := s.Plan()
		plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: s.Exchange, Kind: topology.Direct})
		require.NoError(t, objects.Of(c, "test").Apply(t.Context(), plan))
		s.Restore = func(ctx context.Context) error {
			restored.Add(1)
			return objects.Of(c, "test").Apply(ctx, plan)
		}
		return &s
	}
	first, _ := startedWith(t, b.URL(), prefix, shared)
	second, _ := startedWith(t, b.URL(), prefix, shared)
	becomes(t, first, 0, 20*time.Millisecond)
	becomes(t, second, 0, 20*time.Millisecond)
	require.NoError(t, control.Do(t.Context(), func(ch *amqp091.Channel) error {
		if err := ch.ExchangeDelete(prefix+".clock.answers", false, false); err != nil {
			return err
		}
		_, err := ch.QueueDelete(prefix+".clock", false, false, false)
		return err
	}))
	require.Eventually(t, func() bool { return restored.Load() > 0 }, time.Minute, time.Millisecond)
	first, _ = startedWith(t, b.URL(), prefix, shared)
	becomes(t, first, 0, time.Second)
}

// TestClock_Restart: the broker comes back, and the time is learnt anew.
func TestClock_Restart(t *testing.T) {
	b := rabbittest.Alone(t)
	c, _ := started(t, b.URL(), rabbittest.Prefix(t))
	becomes(t, c, 0, 20*time.Millisecond)
	require.NoError(t, b.Kill())
	require.NoError(t, b.Run(t.Context()))
	becomes(t, c, 100*time.Millisecond, time.Hour)
	becomes(t, c, 0, 20*time.Millisecond)
}

// TestClock_Restricted: names that begin with <prefix>.clock are enough, and nothing is left behind.
func TestClock_Restricted(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	prefix := rabbittest.Prefix(t)
	ctl := func(args ...string) string {
		out, err := b.Ctl(t.Context(), args...)
		require.NoError(t, err, out)
		return out
	}
	ctl("add_user", "restricted", "secret")
	t.Cleanup(func() { _, _ = b.Ctl(context.Background(), "delete_user", "restricted") })
	ctl("set_permissions", "restricted", `^`+prefix+`\.clock\.`, `^`+prefix+`\.clock`, `^`+prefix+`\.clock`)
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	u.User = url.UserPassword("restricted", "secret")
	names := func() string { return ctl("list_exchanges", "name") + ctl("list_queues", "name") }
	t.Run("at work", func(t *testing.T) {
		c, _ := started(t, u.String(), prefix)
		becomes(t, c, 0, time.Second)
		require.Contains(t, names(), prefix+".clock.")

		ctl("set_policy", "expires", "^"+prefix, `{"expires":1}`)
		require.Eventually(t, func() bool { return !strings.Contains(names(), ".expiring") }, time.Minute, 100*time.Millisecond)
		ctl("clear_policy", "expires")
		require.Eventually(t, func() bool { return strings.Contains(names(), ".expiring") }, time.Minute, 100*time.Millisecond)
	})
	require.Eventually(t, func() bool { return !strings.Contains(names(), prefix) }, time.Minute, 100*time.Millisecond)
}
