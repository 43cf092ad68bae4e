package broker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A slotted strategy chooses anew for each attempt.
type slotted struct {
	prefix string
	asked  int
	enter  func(attempt int) engine.Entry
}

func (*slotted) Limits() delayer.Limits {
	return delayer.Limits{Max: time.Hour, Resolution: time.Millisecond}
}
func (*slotted) Growth() message.Growth { return message.Growth{} }

func (s *slotted) name() string { return s.prefix + ".slotted" }

func (s *slotted) Plan() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.name(), Kind: topology.Fanout}},
		Queues:    []topology.Queue{{Name: s.name(), Args: amqp091.Table{"x-queue-type": "quorum"}}},
		Bindings:  []topology.Binding{{Source: s.name(), Target: s.name()}},
	}
}

func (s *slotted) Enter(context.Context, engine.Wait) (engine.Entry, error) {
	s.asked++
	return s.enter(s.asked), nil
}

// start returns an engine of the strategy, and publishes with it to a queue, also as a batch of
// one.
func (s *slotted) start(t *testing.T, b *rabbit.Broker) (publish, batch func() error) {
	t.Helper()
	s.prefix = rabbittest.Prefix(t)
	_, c := open(t, b.URL(), noReset)
	settings, err := engine.Resolve(delayer.Options{URL: b.URL(), Prefix: s.prefix, Logger: slog.New(slog.DiscardHandler)}, "slotted")
	require.NoError(t, err)
	connected, err := engine.Connect(within(t), settings)
	require.NoError(t, err)
	e, err := connected.Start(within(t), s)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, objects.Of(e.Control(), "slotted").Remove(within(t), settings.Whole(s.Plan())))
		require.NoError(t, e.Close())
	})
	queue := declare(t, c, nil)
	publish = func() error { return e.Publish(within(t), "", queue, time.Minute, amqp091.Publishing{}) }
	batch = func() error { return e.PublishBatch(within(t), []delayer.Message{{Key: queue, Delay: time.Minute}})[0] }
	return publish, batch
}

// TestEngine_ChoosesAnew: a message that could not be written in time goes where it belongs by now.
func TestEngine_ChoosesAnew(t *testing.T) {
	t.Parallel()
	s := &slotted{}
	s.enter = func(attempt int) engine.Entry {
		if attempt%2 == 1 {
			return engine.Entry{Exchange: "nowhere", Before: time.Now().Add(-time.Second)}
		}
		return engine.Entry{Exchange: s.name(), Before: time.Now().Add(time.Hour)}
	}
	publish, batch := s.start(t, rabbittest.Broker(t))
	require.NoError(t, publish())
	require.Equal(t, 2, s.asked)
	require.NoError(t, batch())
	require.Equal(t, 4, s.asked)
}

// TestEngine_ConfirmedLate: the broker reads a message only after its time. The strategy is told,
// and if it can do nothing about that, Publish does not return nil.
func TestEngine_ConfirmedLate(t *testing.T) {
	b := rabbittest.Alone(t)
	told := 0
	var fails error
	s := &slotted{}
	resume, resumed := time.NewTimer(time.Hour), make(chan struct{}, 1)
	s.enter = func(int) engine.Entry {
		if !resume.Stop() { // of an attempt that was not written in time it may be at work
			<-resumed
		}
		require.NoError(t, b.Pause())
		before := time.Now().Add(2 * time.Second)
		resume = time.AfterFunc(time.Until(before)+100*time.Millisecond, func() {
			_ = b.Resume()
			resumed <- struct{}{}
		})
		return engine.Entry{Exchange: s.name(), Before: before, Late: func(context.Context) error {
			told++
			return fails
		}}
	}
	publish, batch := s.start(t, b)
	require.NoError(t, publish())
	require.NoError(t, batch())
	require.Equal(t, 2, told)
	fails = broker.ErrReturned
	for i, publish := range []func() error{publish, batch} {
		err := publish()
		require.ErrorIs(t, err, delayer.ErrUnknown)
		require.False(t, delayer.SafeToRetry(err))
		require.Equal(t, 3+i, told, "it is not sent again")
	}
}
