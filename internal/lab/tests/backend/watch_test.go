package backend_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// lookEvery is how often a test looks for what must happen: without a pause the broker would be
// busy with answers.
const lookEvery = 50 * time.Millisecond

// watchedLadder has the steps that double from 100 ms on.
var watchedLadder = binaryladder.Config{Tick: 100 * time.Millisecond, Steps: "100ms,200ms,400ms,800ms,1600ms,3200ms,6400ms,12800ms,25600ms"}

// watched is a ladder of 100 ms whose topology is looked after all the time.
func watched(t *testing.T, log *slog.Logger) (d delayer.Delayer, prefix string) {
	t.Helper()
	prefix = rabbittest.Prefix(t)
	cfg := backend.Config{
		Options:      delayer.Options{URL: rabbittest.Broker(t).URL(), Logger: log, Prefix: prefix, QueueType: delayer.Classic},
		BinaryLadder: watchedLadder,
	}
	d, err := backend.Open(engine.WithWatchEvery(within(t), 100*time.Millisecond), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.Close())
		rabbittest.Remove(t, cfg)
	})
	return d, prefix
}

// TestPublish_QueueDeleted: a message on its way there finds it again, though nobody publishes.
func TestPublish_QueueDeleted(t *testing.T) {
	t.Parallel()
	var log rabbittest.Logbook
	d, prefix := watched(t, log.Logger())
	ch, queue := channel(t), rabbittest.Prefix(t)
	in := consume(t, ch, queue)
	last := prefix + ".ladder.wait.100ms"
	for _, first := range []time.Duration{3200 * time.Millisecond, 12800 * time.Millisecond} { // one may be too short for a slow machine
		began := time.Now()
		require.NoError(t, d.Publish(within(t), "", queue, first+100*time.Millisecond, amqp091.Publishing{}))
		_, err := ch.QueueDelete(last, false, false, false)
		require.NoError(t, err)
		exchange, key := prefix+".ladder.step."+objects.DurationName(first), "~d:"+objects.DurationName(first)+">100ms"
		for ctx, look := within(t), time.Tick(lookEvery); !routed(t, exchange, key); <-look {
			require.NoError(t, ctx.Err())
		}
		if time.Since(began) < first {
			<-in
			require.Contains(t, log.String(), "of this Delayer were deleted")
			require.Contains(t, log.String(), last)
			return
		}
	}
	t.Fatal("the queue was not declared again within 12 s")
}

// routed says whether a queue takes a message, and does not leave one there.
func routed(t *testing.T, exchange, key string) bool {
	t.Helper()
	ch := channel(t)
	returns := ch.NotifyReturn(make(chan amqp091.Return, 1))
	require.NoError(t, ch.Confirm(false))
	const mandatory = true
	c, err := ch.PublishWithDeferredConfirm(exchange, key, mandatory, false, amqp091.Publishing{Headers: amqp091.Table{"x-delayer": "probe 0 "}})
	require.NoError(t, err)
	if ok, err := c.WaitContext(within(t)); err != nil || !ok {
		return false
	}
	select {
	case <-returns:
		return false
	default:
		return true
	}
}

// TestPublish_WholeTopologyDeleted while nobody publishes: it is there again, and the next Publish
// finds it.
func TestPublish_WholeTopologyDeleted(t *testing.T) {
	t.Parallel()
	var log rabbittest.Logbook
	d, prefix := watched(t, log.Logger())
	other, err := backend.Topology(backend.Config{Options: delayer.Options{Prefix: prefix, QueueType: delayer.Classic}, BinaryLadder: watchedLadder})
	require.NoError(t, err)
	ch := channel(t)
	for _, q := range other.Queues {
		_, err := ch.QueueDelete(q.Name, false, false, false)
		require.NoError(t, err)
	}
	for _, x := range other.Exchanges {
		require.NoError(t, ch.ExchangeDelete(x.Name, false, false))
	}
	live := live(t)
	back := func(ctx context.Context) bool {
		missing, err := live.Missing(ctx, other)
		require.NoError(t, err)
		return len(missing) == 0
	}
	for ctx, look := within(t), time.Tick(lookEvery); !back(ctx); <-look {
		require.NoError(t, ctx.Err())
	}
	queue := rabbittest.Prefix(t)
	in := consume(t, ch, queue)
	require.NoError(t, d.Publish(within(t), "", queue, 100*time.Millisecond, amqp091.Publishing{}))
	<-in
}

// live are the objects of the broker.
func live(t *testing.T) objects.Live {
	t.Helper()
	return objects.Of(control(t), "test")
}

func control(t *testing.T) *broker.Control {
	t.Helper()
	conn, err := broker.Dial(within(t), broker.Options{URL: rabbittest.Broker(t).URL(), Name: t.Name(), Logger: silent})
	require.NoError(t, err)
	control := broker.NewControl(conn)
	t.Cleanup(control.Close)
	return control
}

// TestCheck: who looks at objects declares none that is missing, so that the loss is known. What is
// there is compared, and bindings are made again.
func TestCheck(t *testing.T) {
	t.Parallel()
	prefix, ch, live := rabbittest.Prefix(t), channel(t), live(t)
	plan := topology.Plan{
		Exchanges: []topology.Exchange{{Name: prefix + ".x", Kind: topology.Direct}},
		Queues:    []topology.Queue{{Name: prefix + ".a"}, {Name: prefix + ".b"}, {Name: prefix + ".c"}},
		Bindings:  []topology.Binding{{Source: prefix + ".x", Key: "k", Target: prefix + ".b"}},
	}
	t.Cleanup(func() { require.NoError(t, live.Remove(within(t), plan)) })
	check := func() []string {
		t.Helper()
		missing, err := live.Check(within(t), plan)
		require.NoError(t, err)
		return missing
	}
	all := []string{`exchange "` + plan.Exchanges[0].Name + `"`}
	for _, q := range plan.Queues {
		all = append(all, `queue "`+q.Name+`"`)
	}
	require.Equal(t, all, check())
	require.Equal(t, all, check(), "none was declared")
	require.NoError(t, live.Apply(within(t), plan))
	require.Empty(t, check())

	_, err := ch.QueueDelete(plan.Queues[1].Name, false, false, false)
	require.NoError(t, err)
	require.Equal(t, all[2:3], check())
	require.Equal(t, all[2:3], check())
	require.NoError(t, live.Apply(within(t), plan))
	require.NoError(t, ch.QueueUnbind(plan.Queues[1].Name, "k", plan.Exchanges[0].Name, nil))
	require.False(t, routed(t, plan.Exchanges[0].Name, "k"))
	require.Empty(t, check())
	require.True(t, routed(t, plan.Exchanges[0].Name, "k"))

	_, err = ch.QueueDelete(plan.Queues[2].Name, false, false, false)
	require.NoError(t, err)
	_, err = ch.QueueDeclare(plan.Queues[2].Name, true, false, false, false, amqp091.Table{"x-message-ttl": int32(1)})
	require.NoError(t, err)
	_, err = live.Check(within(t), plan)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, plan.Queues[2].Name)
}

// TestCheck_DisturbsNobody: where something is missing the broker closes the channel of who looks,
// and the connection (504) if one more command comes on it. That is seen in some of a hundred
// looks. Who asks something else on that connection is answered nevertheless.
func TestCheck_DisturbsNobody(t *testing.T) {
	t.Parallel()
	control, prefix := control(t), rabbittest.Prefix(t)
	live, there := objects.Of(control, "test"), topology.Exchange{Name: prefix + ".there", Kind: topology.Direct}
	missing := topology.Exchange{Name: prefix + ".missing", Kind: topology.Direct}
	queue := topology.Queue{Name: prefix}
	here := topology.Plan{Exchanges: []topology.Exchange{there}, Queues: []topology.Queue{queue}}
	t.Cleanup(func() { require.NoError(t, live.Remove(within(t), here)) })
	require.NoError(t, live.Apply(within(t), here))
	plan := topology.Plan{Exchanges: append([]topology.Exchange{missing}, slices.Repeat([]topology.Exchange{there}, 300)...)}
	const checks, others = 40, 2
	ctx, stop := context.WithCancel(within(t))
	var asking sync.WaitGroup
	for range others {
		asking.Go(func() {
			for ctx.Err() == nil {
				_, err := control.Queue(ctx, queue.Name)
				if ctx.Err() == nil {
					assert.NoError(t, err)
				}
			}
		})
	}
	for range checks {
		names, err := live.Check(ctx, plan)
		require.NoError(t, err)
		require.Equal(t, []string{`exchange "` + missing.Name + `"`}, names)
	}
	stop()
	asking.Wait()
}
