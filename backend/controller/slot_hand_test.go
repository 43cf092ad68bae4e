package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A fakeClock is ahead of this process by a fixed time.
type fakeClock struct {
	ahead, uncertainty time.Duration
	unknown            bool
	steps              brokertime.Steps
}

func (c *fakeClock) Read() (brokertime.Reading, bool) {
	now := time.Now().Add(c.ahead)
	latest := now.Add(c.uncertainty)
	return brokertime.Reading{Earliest: now.Add(-c.uncertainty), Latest: latest, From: latest, Steps: c.steps}, !c.unknown
}

func slotted() blueprint {
	return blueprint{wheel: wheel.Default(), names: names{"p"}, kind: delayer.Quorum, stage: delivery.NewStage("p", true)}
}

// turning runs test with a hand that consumes nothing, in a bubble. full are the queues that hold
// messages; a negative number is of one that is slow to answer. pass lets time pass.
func turning(t *testing.T, full map[string]int, test func(h *hand, c *fakeClock, pass func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		c, knows := &fakeClock{}, &brokerClock{}
		knows.set(c)
		h := newHand(&runner{blueprint: slotted()}, nil, knows)
		h.begin = func(ctx context.Context, s *session) {
			s.served.Store(full[s.queue] >= 0)
			<-ctx.Done()
		}
		h.count = func(_ context.Context, queue string) (int, error) {
			if full[queue] < 0 {
				return 0, errSlow
			}
			return full[queue], nil
		}
		h.weigh(1)
		ctx, cancel := context.WithCancel(t.Context())
		pass := func(d time.Duration) {
			for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(handEvery) {
				h.turn(ctx)
				synctest.Wait()
				select {
				case slots := <-h.found:
					h.visit(ctx, slots)
				default:
				}
			}
		}
		pass(2 * handEvery)
		test(h, c, pass)
		cancel()
		h.run(ctx) // waits for all
	})
}

// consumed lists the queues of a level that are consumed.
func (h *hand) consumed(level string) []string {
	var queues []string
	for _, s := range h.sessions {
		if strings.Contains(s.queue, level) {
			queues = append(queues, s.queue)
		}
	}
	slices.Sort(queues)
	return queues
}

func TestHand_FollowsTheTime(t *testing.T) {
	turning(t, nil, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		before := len(h.sessions)
		for range 200 {
			pass(time.Second)
			require.InDelta(t, before, len(h.sessions), 2)
			open := map[wheel.Slot]bool{}
			for _, turn := range h.wheel.Open(time.Now(), time.Now()) {
				open[h.wheel.Slot(turn)] = true
			}
			for slot := range open {
				require.Contains(t, slices.Collect(maps.Keys(h.sessions)), slot)
			}
		}
	})
}

func TestHand_LooksAtWhatWasLeft(t *testing.T) {
	full := map[string]int{"p.controller.wait.hours.10": 7, "p.controller.wait.months.07": 1}
	turning(t, full, func(h *hand, c *fakeClock, pass func(time.Duration)) {
		rest := func() (at []string) {
			for _, s := range h.sessions {
				if s.visit.Resting {
					require.Equal(t, mostAtRest, s.prefetch)
					at = append(at, s.queue)
				}
			}
			slices.Sort(at)
			return at
		}
		left := []string{"p.controller.wait.hours.10", "p.controller.wait.months.07"}
		require.Equal(t, left, rest(), "when it starts")
		s := h.sessions[wheel.Slot{Level: 2, Index: 10}]
		s.inHand.Add(1)
		pass(2 * quietFor)
		require.Equal(t, left[:1], rest(), "until it is done")
		s.inHand.Add(-1)
		pass(time.Second)
		require.Empty(t, rest())

		h.lookAround.Store(true) // a channel was lost
		pass(2 * handEvery)
		require.Equal(t, left, rest())
		pass(2 * quietFor)
		c.ahead = time.Minute // the clock was set
		pass(2 * handEvery)
		require.Equal(t, left, rest())
	})
}

// TestHand_WaitsForASlowSlot: a slot that is read from disk does not answer for a while.
func TestHand_WaitsForASlowSlot(t *testing.T) {
	const slow = "p.controller.wait.months.07"
	full := map[string]int{slow: -1}
	turning(t, full, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		require.Contains(t, h.consumed("months"), slow)
		pass(10 * quietFor)
		require.Contains(t, h.consumed("months"), slow)
		pass(renewAfter)
		require.Contains(t, h.consumed("months"), slow, "it was tried anew")
		full[slow] = 1
		for _, s := range h.sessions {
			s.served.Store(true)
		}
		pass(2 * quietFor)
		require.NotContains(t, h.consumed("months"), slow)
	})
}

// TestHand_Searches: a slot at rest is searched until all that was in it has been taken.
func TestHand_Searches(t *testing.T) {
	turning(t, nil, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		rest := h.wheel.Slot(h.wheel.Place(time.Now(), time.Now().Add(40*time.Minute)))
		ended := 0
		h.searches.add(rest, func() { ended++ })
		pass(time.Second)
		first := h.sessions[rest]
		require.True(t, first.visit.Resting)
		first.search.begin(500, nil)
		first.search.taken.Store(100)
		require.True(t, first.search.moves())
		pass(2 * quietFor) // its channel gets no more, since another controller consumes the slot
		second := h.sessions[rest]
		require.NotSame(t, first, second)
		require.Zero(t, ended)
		second.search.begin(500, nil)
		second.search.taken.Store(800)
		require.False(t, second.search.moves(), "it goes round")
		h.searches.add(rest, func() { ended += 10 }) // this one may be about what came later
		pass(2 * quietFor)
		require.Equal(t, 1, ended)
		h.sessions[rest].search.begin(0, errors.New("lost"))
		pass(2 * quietFor)
		require.Equal(t, 1, ended, "it is not known how many there are")
		h.sessions[rest].search.begin(0, nil)
		pass(2 * quietFor)
		require.Equal(t, 11, ended)
		require.NotContains(t, h.sessions, rest)

		turn := h.wheel.Slot(h.wheel.Place(time.Now(), time.Now().Add(time.Second)))
		h.searches.add(turn, func() { ended += 100 })
		pass(time.Second)
		require.Equal(t, 111, ended, "in its turn a slot is drained")
	})
}

func TestHand_LooksAgainAfterAStep(t *testing.T) {
	full := map[string]int{}
	turning(t, full, func(h *hand, c *fakeClock, pass func(time.Duration)) {
		pass(2 * quietFor)
		c.ahead = time.Minute
		pass(2 * quietFor)
		full["p.controller.wait.months.07"] = 1 // written by one who has not noticed
		pass(brokertime.NoticedWithin - 2*quietFor + time.Second)
		require.Contains(t, h.consumed("months"), "p.controller.wait.months.07")
	})
}

// TestHand_LooksOnceMore: what another controller took, which looked first and died, is back.
func TestHand_LooksOnceMore(t *testing.T) {
	const left = "p.controller.wait.months.07"
	full := map[string]int{}
	turning(t, full, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		require.NotContains(t, h.consumed("months"), left)
		full[left] = 1
		pass(lookAgainAfter)
		require.Contains(t, h.consumed("months"), left)
		pass(2 * quietFor)
		require.NotContains(t, h.consumed("months"), left)
		pass(2 * lookAgainAfter)
		require.NotContains(t, h.consumed("months"), left, "twice is enough")
	})
}

func TestSearched(t *testing.T) {
	b := slotted()
	for text, want := range map[any]bool{"0.5": true, "4.11": true, "4.12": false, "5.0": false, "-1.0": false, "": false, "x": false, 5: false} {
		_, ok := b.searched(&amqp091.Delivery{Headers: amqp091.Table{searchHeader: text}})
		require.Equal(t, want, ok, text)
	}
	_, ok := b.searched(&amqp091.Delivery{Headers: amqp091.Table{searchHeader: "0.5", message.Stamp: amqp091.Table{}}})
	require.False(t, ok, "a user's")
}

func TestHand_ATurnIsConsumedAnewAfterIt(t *testing.T) {
	turning(t, nil, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		turn := h.wheel.Open(time.Now(), time.Now())[13] // of seconds
		slot := h.wheel.Slot(turn)
		first := h.sessions[slot]
		require.Equal(t, mostOfSeconds, first.prefetch)
		require.Equal(t, turn, first.visit.Turn)
		first.inHand.Add(1)
		pass(15 * time.Second)
		require.Same(t, first, h.sessions[slot], "it has not drained its slot")
		first.inHand.Add(-1)
		pass(time.Second)
		require.Equal(t, mostAfterTurn, h.sessions[slot].prefetch)
		pass(30 * time.Second)
		require.NotContains(t, h.sessions, slot)
	})
}

func TestHand_IdleConsumersAreRenewed(t *testing.T) {
	turning(t, nil, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		intake := h.intake
		months := h.consumed("months")
		var slot wheel.Slot
		for at, s := range h.sessions {
			if s.queue == months[0] {
				slot = at
			}
		}
		first := h.sessions[slot]
		pass(renewAfter + time.Second)
		require.NotSame(t, intake, h.intake)
		require.NotSame(t, first, h.sessions[slot])
		require.Equal(t, months, h.consumed("months"))
	})
}

// TestHand_TakesFewUntilSizesAreKnown: a controller that starts where large messages wait must not
// take as many as of small ones.
func TestHand_TakesFewUntilSizesAreKnown(t *testing.T) {
	full := map[string]int{"p.controller.wait.months.07": 1}
	turning(t, full, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		all := func(take int) {
			t.Helper()
			require.Equal(t, take, h.intake.prefetch)
			require.NotEmpty(t, h.sessions)
			for _, s := range h.sessions {
				require.Equal(t, take, s.prefetch)
			}
		}
		end := func() { // and begin anew
			h.intake.cancel()
			for _, s := range h.sessions {
				s.cancel()
			}
			pass(time.Second)
		}
		h.average.Store(0)
		end()
		all(16)
		h.intake.inHand.Add(1)
		h.weigh(1 << 20)
		pass(time.Second)
		all(31)
		require.Zero(t, h.intake.inHand.Load(), "it was opened anew")
	})
}

// TestHand_GoesOnWhereItTookASample: what a session at rest has not taken yet would stay for a rotation.
func TestHand_GoesOnWhereItTookASample(t *testing.T) {
	const queue = "p.controller.wait.months.07"
	turning(t, map[string]int{queue: 100}, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		slot := wheel.Slot{Level: 4, Index: 7}
		pass(2 * quietFor)
		require.NotContains(t, h.sessions, slot)
		h.average.Store(0)
		h.lookAround.Store(true)
		pass(2 * handEvery)
		first := h.sessions[slot]
		require.Equal(t, mostUnknown, first.prefetch)
		h.weigh(1)
		pass(2 * handEvery)
		second := h.sessions[slot]
		require.NotNil(t, second)
		require.NotSame(t, first, second)
		require.True(t, second.visit.Resting)
		require.Equal(t, mostAtRest, second.prefetch)
		pass(2 * quietFor)
		require.NotContains(t, h.sessions, slot)
	})
}

// TestHand_GoesOnWhereMessagesAreDue until there are none.
func TestHand_GoesOnWhereMessagesAreDue(t *testing.T) {
	turning(t, map[string]int{"p.controller.wait.months.07": 1}, func(h *hand, _ *fakeClock, pass func(time.Duration)) {
		slot := wheel.Slot{Level: 4, Index: 7}
		first := h.sessions[slot]
		first.tookDue.Store(true)
		pass(quietFor + time.Second)
		require.NotNil(t, h.sessions[slot])
		require.NotSame(t, first, h.sessions[slot])
		pass(2 * quietFor)
		require.NotContains(t, h.sessions, slot)
	})
}

func TestHand_WithoutTheTimeOnlyTheIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHand(&runner{blueprint: slotted()}, nil, &brokerClock{})
		h.begin = func(ctx context.Context, _ *session) { <-ctx.Done() }
		ctx, cancel := context.WithCancel(t.Context())
		h.turn(ctx)
		require.Empty(t, h.sessions)
		require.Equal(t, "p.controller.intake", h.intake.queue)
		cancel()
		synctest.Wait()
	})
}

func TestPrefetch(t *testing.T) {
	seconds, rest := wheel.Visit{}, wheel.Visit{Resting: true}
	require.Equal(t, 16, prefetchFor(seconds, false, 0), "the size is unknown")
	require.Equal(t, 32000, prefetchFor(seconds, false, 1))
	require.Equal(t, 16384, prefetchFor(seconds, false, 2048))
	require.Equal(t, 32, prefetchFor(seconds, false, 1<<20))
	require.Equal(t, 16, prefetchFor(seconds, false, 1<<30))
	require.Equal(t, 256, prefetchFor(seconds, true, 1))
	require.Equal(t, 8192, prefetchFor(wheel.Visit{Turn: wheel.Turn{Level: 1}}, false, 1))
	require.Equal(t, 1024, prefetchFor(wheel.Visit{Turn: wheel.None}, false, 1))
	require.Equal(t, 32, prefetchFor(rest, false, 1))
}
