package broker_test

import (
	"context"
	"log/slog"
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

// A clockRig is what a process needs to ask for the broker's time.
type clockRig struct {
	testing.TB
	publisher *broker.Publisher
	control   *broker.Control
	plan      topology.Plan
	shared    brokertime.Shared
}

func newClockRig(t testing.TB, address string) *clockRig {
	t.Helper()
	name := rabbittest.Prefix(t)
	r := &clockRig{TB: t}
	r.publisher, r.control = open(t, address, func() {})
	r.shared = brokertime.Shared{Queue: name + ".clock", Exchange: name, Key: "clock", Answers: name + ".answers"}
	r.plan = r.shared.Plan()
	r.plan.Exchanges = append(r.plan.Exchanges, topology.Exchange{Name: name, Kind: amqp091.ExchangeDirect})
	r.declare()
	return r
}

func (r *clockRig) declare() {
	require.NoError(r, objects.Of(r.control, "test").Apply(r.Context(), r.plan))
}

func (r *clockRig) clock(logger *slog.Logger) *brokertime.Clock {
	return brokertime.New(brokertime.Config{
		Backend: "test", Prefix: r.shared.Exchange, Logger: logger, Control: r.control, Shared: r.shared, Publish: r.publisher.PublishDirect,
	})
}

// run is a Clock at work until the test ends.
func (r *clockRig) run(t *testing.T) (c *brokertime.Clock, log *rabbittest.Logbook) {
	t.Helper()
	log = new(rabbittest.Logbook)
	log.ShowIfFailed(t, "a clock")
	c = r.clock(log.Logger())
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	return c, log
}

// becomes waits until the time is known to so much. It is that of this machine.
func becomes(t *testing.T, c *brokertime.Clock, width time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := time.Now()
		now, ok := c.Read()
		if !ok {
			return false
		}
		require.False(t, now.Earliest.After(time.Now()))
		require.False(t, now.Latest.Before(before))
		return now.Latest.Sub(now.Earliest) <= width
	}, 3*time.Minute, time.Millisecond)
}

// TestClock_Shared: two processes ask through one queue, which is restored when it is deleted.
func TestClock_Shared(t *testing.T) {
	t.Parallel()
	r := newClockRig(t, rabbittest.Broker(t).URL())
	var restored atomic.Int32
	r.shared.Restore = func(ctx context.Context) error {
		restored.Add(1)
		return objects.Of(r.control, "test").Apply(ctx, r.plan) // fails if the test has ended meanwhile
	}
	first, log := r.run(t)
	second, _ := r.run(t)
	const afterSome = 500 * time.Millisecond // questions; the first tells a second
	becomes(t, first, afterSome)
	becomes(t, second, afterSome)
	require.NotContains(t, log.String(), "level=WARN")
	require.NoError(t, r.control.Do(t.Context(), func(ch *amqp091.Channel) error {
		if err := ch.ExchangeDelete(r.shared.Answers, false, false); err != nil {
			return err
		}
		_, err := ch.QueueDelete(r.shared.Queue, false, false, false)
		return err
	}))
	require.Eventually(t, func() bool { return restored.Load() > 0 }, time.Minute, time.Millisecond)
	third, _ := r.run(t)
	becomes(t, third, 2*time.Second)
}

// TestClock_QueueWithoutTTL: a question expires at once also in a queue that does not make it, as
// one that another process is declaring may not yet. There it would hold up all that follow.
func TestClock_QueueWithoutTTL(t *testing.T) {
	t.Parallel()
	r := newClockRig(t, rabbittest.Broker(t).URL())
	require.NoError(t, r.control.Do(t.Context(), func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(r.shared.Queue, false, false, false)
		return err
	}))
	delete(r.plan.Queues[0].Args, "x-message-ttl")
	r.declare()
	c, _ := r.run(t)
	becomes(t, c, 2*time.Second)
}
