package brokertime

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A fakeBroker is a wire to a broker whose clock is ahead.
type fakeBroker struct {
	flying sync.WaitGroup

	mu     sync.Mutex
	ahead  time.Duration
	there  time.Duration
	lose   int   // the next answers
	refuse error // of open
	fail   error // of send
	opened int
	asked  int
	dates  time.Time // instead of the clock

	in chan amqp091.Delivery
}

func (f *fakeBroker) open(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil || f.in != nil {
		return f.refuse
	}
	f.in = make(chan amqp091.Delivery, 10)
	f.opened++
	return nil
}

func (f *fakeBroker) send(_ context.Context, question message.Envelope) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.fail != nil {
		return f.fail
	}
	if f.lose > 0 {
		f.lose--
		return nil
	}
	in := f.in
	f.flying.Go(func() {
		time.Sleep(f.there)
		f.mu.Lock()
		defer f.mu.Unlock()
		at := f.dates
		if at.IsZero() {
			at = time.Now().Add(f.ahead).Truncate(time.Second)
		}
		if in == f.in && in != nil {
			in <- dated(question.String(), at)
		}
	})
	return nil
}

func dated(question string, at time.Time) amqp091.Delivery {
	return amqp091.Delivery{Headers: amqp091.Table{
		delayer.Header: question, "x-death": []any{amqp091.Table{"time": at}},
	}}
}

func (f *fakeBroker) answers() <-chan amqp091.Delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.in
}

func (f *fakeBroker) lost() { f.set(func() { f.in = nil }) }

func (f *fakeBroker) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// cut ends the consumer.
func (f *fakeBroker) cut() { f.set(func() { close(f.in) }) }

// running runs a Clock until the test ends, and returns what it logs.
func running(t *testing.T, f *fakeBroker, before ...func(*Clock)) (*Clock, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer) // read it only after synctest.Wait
	c := newClock(Config{Prefix: "p", Logger: slog.New(slog.NewTextHandler(log, nil))}, f)
	for _, prepare := range before {
		prepare(c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
		f.flying.Wait()
	})
	return c, log
}

// requireKnown requires that the truth is within so much.
func requireKnown(t *testing.T, c *Clock, truth time.Time, atMost time.Duration) {
	t.Helper()
	now, ok := c.Read()
	require.True(t, ok)
	require.LessOrEqual(t, now.Latest.Sub(now.Earliest), 2*atMost)
	require.WithinRange(t, truth, now.Earliest, now.Latest)
}

func TestClock_Run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{ahead: time.Hour, there: time.Millisecond}
		c, log := running(t, f)
		_, ok := c.Read()
		require.False(t, ok)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		requireKnown(t, c, time.Now().Add(time.Hour), 501*time.Millisecond)
		time.Sleep(20 * time.Second)
		for range 1000 {
			requireKnown(t, c, time.Now().Add(time.Hour), 5*time.Millisecond)
			time.Sleep(99 * time.Millisecond)
		}
		synctest.Wait()
		require.Less(t, f.asked, 80, "it rests")
		require.Empty(t, log.String())
		require.Equal(t, 1, f.opened)
	})
}

// TestClock_StepsAreNoticed of the broker's clock, within 25 s, whenever they begin.
func TestClock_StepsAreNoticed(t *testing.T) {
	for after := range 20 {
		for _, by := range []time.Duration{-time.Hour, -300 * time.Millisecond, 50 * time.Millisecond, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeBroker{there: time.Millisecond}
				c, log := running(t, f)
				time.Sleep(time.Minute + time.Duration(after)*time.Second)
				f.set(func() { f.ahead = by })
				time.Sleep(25 * time.Second)
				synctest.Wait()
				require.Contains(t, log.String(), "was one set?", "%v after %d s", by, after)
				time.Sleep(35 * time.Second)
				requireKnown(t, c, time.Now().Add(by), 5*time.Millisecond)
			})
		}
	}
}

// TestClock_WallClockIsSet: this machine's. The time is known again after a round trip.
func TestClock_WallClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -time.Minute, 40 * time.Second, 20 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var wall atomic.Int64
			c, _ := running(t, &fakeBroker{ahead: -time.Hour, there: time.Millisecond}, func(c *Clock) {
				unset := c.interval.instant
				c.interval.instant = func(t time.Time) instant {
					now := unset(t)
					now.wall = now.wall.Add(time.Duration(wall.Load()))
					return now
				}
			})
			time.Sleep(20 * time.Second)
			for range 10 { // at any moment between two questions
				wall.Add(int64(by))
				_, ok := c.Read()
				require.False(t, ok)
				time.Sleep(3 * time.Millisecond) // the round trip takes one
				requireKnown(t, c, time.Now().Add(-time.Hour), 501*time.Millisecond)
				time.Sleep(1200 * time.Millisecond)
			}
		})
	}
}

func TestClock_AnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{there: time.Millisecond}
		c, log := running(t, f)
		time.Sleep(time.Minute)
		f.set(func() { f.lose = 3 })
		for range 40 {
			time.Sleep(time.Second)
			requireKnown(t, c, time.Now(), 20*time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, 4, f.opened, "all is declared again")
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("cannot ask")))

		f.set(func() { f.lose = 1000 })
		time.Sleep(staleAfter + rest + askTimeout)
		_, ok := c.Read()
		require.False(t, ok, "stale")
		f.set(func() { f.lose = 0 })
		time.Sleep(time.Minute)
		requireKnown(t, c, time.Now(), 5*time.Millisecond)
	})
}

// TestClock_ConsumerIsLost: it asks at once.
func TestClock_ConsumerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{there: time.Millisecond}
		c, _ := running(t, f)
		time.Sleep(time.Minute + time.Second/2) // questions are asked when a second is full
		f.cut()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, f.opened)
		requireKnown(t, c, time.Now(), 5*time.Millisecond)
	})
}

// TestClock_ConsumerIsLostWhileAsking counts as a question without an answer.
func TestClock_ConsumerIsLostWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{lose: 1}
		c, log := running(t, f)
		time.Sleep(time.Second)
		f.cut()
		time.Sleep(time.Minute)
		requireKnown(t, c, time.Now(), 5*time.Millisecond)
		synctest.Wait()
		require.Contains(t, log.String(), "cannot ask")
	})
}

func TestClock_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{refuse: &amqp091.Error{Code: amqp091.AccessRefused, Reason: "no", Server: true}}
		c, log := running(t, f)
		time.Sleep(time.Minute)
		synctest.Wait()
		_, ok := c.Read()
		require.False(t, ok)
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), "it is said once")
		require.Contains(t, log.String(), "grant the user this permission")
		f.set(func() { f.refuse = nil })
		time.Sleep(time.Minute)
		requireKnown(t, c, time.Now(), 5*time.Millisecond)
	})
}

func TestClock_AskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBroker{fail: errors.New("blocked")}
		c := newClock(Config{Logger: slog.New(slog.DiscardHandler)}, f)
		require.ErrorContains(t, c.Ask(t.Context()), "blocked")
		require.Nil(t, f.answers(), "all is declared again")
		f.fail = nil
		for _, nonsense := range []time.Time{time.Unix(1<<50, 0), time.Unix(-5, 0)} {
			f.dates = nonsense
			require.ErrorContains(t, c.Ask(t.Context()), "its x-death has the time")
		}
		_, ok := c.Read()
		require.False(t, ok)
		f.dates = time.Time{}
		f.in <- dated("an older one", time.Now().Add(time.Hour))
		require.NoError(t, c.Ask(t.Context()))
		requireKnown(t, c, time.Now(), time.Second)
	})
}
