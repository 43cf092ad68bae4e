package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// TestSeat_NeverEarly: whatever the two clocks show within their uncertainty, a controller of another
// process takes a message for due only after the delay.
func TestSeat_NeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slotted()
		const delay = 90 * time.Second
		for _, off := range []time.Duration{-time.Second, 0, time.Second} { // of the publisher's estimate
			publisher, controller := &brokerClock{}, &brokerClock{}
			publisher.set(&fakeClock{ahead: time.Hour + off, uncertainty: time.Second})
			controller.set(&fakeClock{ahead: time.Hour + 50*time.Millisecond, uncertainty: 50 * time.Millisecond})
			published := time.Now()
			to := b.seat(publisher, "key", stamp{to: []any{"~d:x"}}, delay)
			m := incoming{stamp: to.stamp}
			m.stamp.clock = "another"
			for {
				left, ok := m.left(controller)
				require.True(t, ok)
				if left <= 0 {
					break
				}
				time.Sleep(left)
			}
			waited := time.Since(published)
			require.GreaterOrEqual(t, waited, delay)
			require.LessOrEqual(t, waited, delay+2100*time.Millisecond+time.Millisecond, "late by the uncertainties")
		}
	})
}

// TestSeat_AfterAStep: the broker's clock was set forward while messages waited. One of before keeps
// its stamp, and goes where it belongs by the clock of now.
func TestSeat_AfterAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := slotted(), &brokerClock{}
		c.set(&fakeClock{})
		old := incoming{stamp: b.seat(c, "key", stamp{}, 10*time.Minute).stamp}
		old.stamp.clock = "another"
		time.Sleep(time.Minute)
		now := time.Now().Add(time.Hour)
		c.set(&fakeClock{ahead: time.Hour, steps: brokertime.Steps{{By: time.Hour, Until: now.Add(-58 * time.Minute)}}})
		left, ok := old.left(c)
		require.True(t, ok)
		require.Equal(t, 9*time.Minute, left)
		to := b.seat(c, "key", old.stamp, left)
		require.Equal(t, old.stamp.at, to.stamp.at)
		require.Equal(t, old.stamp.since, to.stamp.since)
		require.Equal(t, b.wheel.Slot(b.wheel.Place(now, now.Add(9*time.Minute))), to.slot)

		fresh := incoming{stamp: b.seat(c, "key", stamp{}, time.Minute).stamp}
		fresh.stamp.clock = "another"
		left, ok = fresh.left(c)
		require.True(t, ok)
		require.Equal(t, time.Minute, left)
	})
}

// TestEnter_AwaitsTheTime for a moment, which may be missing since this machine's clock was set.
func TestEnter_AwaitsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slotStrategy{strategy: strategy{blueprint: slotted()}, clock: &brokerClock{}}
		enter := func(exchange string, took time.Duration) {
			t.Helper()
			now := time.Now()
			m := engine.Wait{Delay: time.Minute, Envelope: message.NewEnvelope(now, time.Minute, "")}
			to, err := s.Enter(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, exchange, to.Exchange)
			require.Equal(t, took, time.Since(now))
		}
		for range 2 {
			unknown := &fakeClock{unknown: true}
			s.clock.set(unknown)
			enter("p.controller.enter", awaitFor)
			enter("p.controller.enter", 0)
			s.clock.set(&fakeClock{})
			enter("p.controller.enter.slots", 0)
			s.clock.set(unknown)
			time.AfterFunc(49*time.Millisecond, func() { s.clock.set(&fakeClock{}) })
			enter("p.controller.enter.slots", 50*time.Millisecond)
		}
	})
}

func TestSeat_Where(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := slotted(), &brokerClock{}
		to := b.seat(c, "key", stamp{}, time.Minute)
		require.Equal(t, "p.controller.enter", to.exchange, "the time is not known")
		require.Equal(t, "key", to.key)
		require.Nil(t, to.stamp.key)
		require.Zero(t, to.stamp.at)
		require.Equal(t, time.Minute, to.stamp.left)
		require.True(t, to.before.IsZero())

		c.set(&fakeClock{uncertainty: time.Millisecond})
		to = b.seat(c, "key", stamp{}, time.Minute)
		require.Equal(t, "p.controller.enter.slots", to.exchange)
		require.Equal(t, "~d:slot:seconds-20", to.key)
		require.Equal(t, "key", *to.stamp.key)
		require.Equal(t, time.Now().Add(time.Minute+time.Millisecond).UnixMilli(), to.stamp.at)
		require.WithinRange(t, to.before, time.Now().Add(time.Minute), time.Now().Add(90*time.Second), "or its slot may be at rest")

		again := b.seat(c, "key", to.stamp, 50*time.Second)
		require.Equal(t, to.stamp.at, again.stamp.at, "the due time stays")
	})
}

func TestLeft_OfAMessageWithoutATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := incoming{stamp: stamp{clock: "another", left: time.Minute}, came: time.Now()}
		time.Sleep(20 * time.Second)
		left, ok := m.left(&brokerClock{})
		require.True(t, ok)
		require.Equal(t, 40*time.Second, left, "it waits since it came")
		m.stamp.at = 1
		_, ok = m.left(&brokerClock{})
		require.False(t, ok)
	})
}

func TestSlotTopology(t *testing.T) {
	p := slotted().Plan()
	require.Equal(t, []topology.Marker{{Name: "p.controller", Config: "p:controller,slots=64x3s+96x1m0s+32x1h0m0s+32x24h0m0s+12x720h0m0s,quorum"}}, p.Markers)
	require.Len(t, p.Queues, 240)
	require.Equal(t, "p.controller.wait.seconds.00", p.Queues[1].Name)
	require.Equal(t, true, p.Queues[1].Args["x-single-active-consumer"])
	require.Equal(t, "p.controller.enter", p.Queues[1].Args["x-dead-letter-exchange"])
	require.Equal(t, "balanced", p.Queues[1].Args["x-queue-leader-locator"])
	require.Equal(t, objects.NeverGivenUp, p.Queues[1].Args["x-delivery-limit"])
	require.Equal(t, objects.NeverFull, p.Queues[1].Args["x-max-length"])
	require.Equal(t, topology.Binding{Source: "p.controller.enter.slots", Key: "~d:slot:months-11", Target: "p.controller.wait.months.11"}, p.Bindings[len(p.Bindings)-4])
	require.Len(t, p.Exchanges, 4)
}
