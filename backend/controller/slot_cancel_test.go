package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/changes"
	"github.com/delayer-go/delayer/backend/controller/internal/ticket"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A memory is a controller that has messages of a minute's slot in memory, and a stream.
type memory struct {
	*slotRouter
	consumer *consumer

	mu      sync.Mutex
	stream  [][]byte
	read    int
	stalled bool // nothing is read
	refuses bool // nothing is written
	sent    map[string]time.Time
	acked   []uint64
	tag     uint64
}

func (h *memory) Ack(tag uint64, _ bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = append(h.acked, tag)
	return nil
}
func (h *memory) Nack(uint64, bool, bool) error { return nil }
func (h *memory) Reject(uint64, bool) error     { return nil }

// inMemory runs test in a bubble.
func inMemory(t *testing.T, test func(h *memory)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := &memory{sent: map[string]time.Time{}}
		knows := &brokerClock{}
		knows.set(&fakeClock{})
		turns := newHand(&runner{blueprint: slotted(), log: slog.New(slog.DiscardHandler)}, nil, knows)
		turns.send = func(_ *consumer, m incoming) {
			h.mu.Lock()
			h.sent[m.envelope.ID] = time.Now()
			h.mu.Unlock()
			h.acknowledge(m.Delivery)
		}
		turns.changes.write = h.store
		minute := wheel.Visit{Turn: wheel.Turn{Level: 1, Number: time.Now().UnixMilli() / time.Minute.Milliseconds()}, Fits: true}
		h.slotRouter = &slotRouter{session: &session{hand: turns, visit: minute}}
		h.begin(h)
		h.consumer = turns.newConsumer(ctx, h.slotRouter, math.MaxInt, math.MaxInt)
		var running sync.WaitGroup
		running.Go(func() { h.consumer.holder.run(ctx) })
		running.Go(func() { h.changes.keep(ctx) })
		running.Go(func() { h.follow(ctx) })
		h.changes.again()
		defer func() {
			cancel()
			running.Wait()
			h.stop()
		}()
		test(h)
	})
}

// store writes to the stream.
func (h *memory) store(_ context.Context, msg broker.Publishing) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses {
		return errors.New("blocked")
	}
	h.stream = append(h.stream, msg.Message.Body)
	return nil
}

// follow reads the stream, a while after it was written.
func (h *memory) follow(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		h.mu.Lock()
		var fresh [][]byte
		if !h.stalled {
			fresh, h.read = h.stream[h.read:], len(h.stream)
		}
		h.mu.Unlock()
		for _, body := range fresh {
			h.changes.take(body)
		}
	}
}

// stall stops reading, or goes on with it.
func (h *memory) stall(stalled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stalled = stalled
}

// refuse makes nothing be written, or goes on with it.
func (h *memory) refuse(refuses bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = refuses
}

// written is how many entries the stream has.
func (h *memory) written() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.stream)
}

// takes gives a message to the controller that is due in so long. It has come from another process.
func (h *memory) takes(id string, in time.Duration, withTicket bool) ticket.Ticket {
	to := h.blueprint.seat(h.slotRouter.clock, "key", stamp{to: []any{"~d:x"}, ticket: withTicket}, in)
	to.stamp.clock = "another"
	h.tag++
	d := &amqp091.Delivery{Acknowledger: h, DeliveryTag: h.tag, Headers: to.stamp.header()}
	h.inHand.Add(1)
	h.route(h.consumer, incoming{d, delayer.Envelope{ID: id}, to.stamp, time.Now()})
	return ticket.Ticket{ID: id, Due: to.stamp.at, Since: to.stamp.since, From: to.stamp.at, Read: to.reads.UnixMilli()}
}

// writes puts a change into the stream.
func (h *memory) writes(id string, f changes.Fate) {
	e := changes.Entry{Changes: map[string]changes.Fate{id: f}}
	_ = h.store(context.Background(), broker.Publishing{Message: amqp091.Publishing{Body: e.Body()}})
}

func (h *memory) delivered() map[string]time.Time {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.sent)
}

func (h *memory) acknowledged() []uint64 {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.acked)
}

func cancelled(t ticket.Ticket) changes.Fate {
	return changes.Fate{Cancelled: true, Due: t.Due, Since: t.Since, Last: t.Due, First: t.Since}
}

func postponement(t ticket.Ticket, by time.Duration) changes.Fate {
	to := t.Due + by.Milliseconds()
	return changes.Fate{Revision: t.Revision + 1, Due: to, Since: t.Since, Last: max(to, t.Due), First: t.Since}
}

func TestTicket_OnTime(t *testing.T) {
	inMemory(t, func(h *memory) {
		due := time.Now().Add(20 * time.Second)
		h.takes("kept", 20*time.Second, true)
		time.Sleep(25 * time.Second)
		require.Equal(t, due, h.delivered()["kept"], "it is known beforehand that it is not cancelled")
		soon := time.Now()
		h.takes("soon", time.Second, true)
		time.Sleep(3 * time.Second)
		require.Equal(t, soon.Add(time.Second), h.delivered()["soon"])
		h.takes("overdue", -time.Minute, true)
		time.Sleep(time.Second)
		require.Contains(t, h.delivered(), "overdue")
	})
}

// TestTicket_NoMarksWithoutOne: messages without tickets cost nothing.
func TestTicket_NoMarksWithoutOne(t *testing.T) {
	inMemory(t, func(h *memory) {
		time.Sleep(10 * time.Second) // those of the beginning
		was := h.written()
		require.Positive(t, was)
		h.stall(true)
		h.takes("ordinary", 20*time.Second, false)
		h.writes("ordinary", changes.Fate{Cancelled: true})
		time.Sleep(20 * time.Second)
		require.Contains(t, h.delivered(), "ordinary")
		require.Equal(t, was+1, h.written())
	})
}

func TestTicket_Cancelled(t *testing.T) {
	inMemory(t, func(h *memory) {
		late := h.takes("late", 10*time.Second, true)
		h.writes("early", cancelled(ticket.Ticket{ID: "early", Due: late.Due})) // before its message comes
		time.Sleep(time.Second)
		h.takes("early", time.Minute, true)
		time.Sleep(ackWithin + time.Second)
		require.Equal(t, []uint64{2}, h.acknowledged())
		time.Sleep(2 * time.Second)
		h.writes("late", cancelled(late)) // as late as it is accepted
		time.Sleep(time.Minute)
		require.Empty(t, h.delivered())
		require.Equal(t, []uint64{2, 1}, h.acknowledged())
		require.Zero(t, h.inHand.Load())
	})
}

// TestTicket_StreamIsBehind: what is not certain waits. A change that is read at the last moment
// counts, also if it is read together with the mark.
func TestTicket_StreamIsBehind(t *testing.T) {
	inMemory(t, func(h *memory) {
		kept, gone := h.takes("kept", 10*time.Second, true), h.takes("gone", 10*time.Second, true)
		require.Equal(t, kept.Due, gone.Due)
		h.stall(true)
		time.Sleep(4 * time.Second)
		h.writes("gone", cancelled(gone))
		time.Sleep(time.Minute)
		require.Empty(t, h.delivered())
		h.stall(false)
		time.Sleep(time.Second)
		require.Equal(t, []string{"kept"}, slices.Collect(maps.Keys(h.delivered())))
	})
}

// TestTicket_ReadAtTheLastMoment: a change comes between the look at what is known of a message and the
// mark that makes it certain.
func TestTicket_ReadAtTheLastMoment(t *testing.T) {
	inMemory(t, func(h *memory) {
		m := incoming{
			&amqp091.Delivery{DeliveryTag: 1}, delayer.Envelope{ID: "m"},
			stamp{clock: "another", at: time.Now().UnixMilli(), since: 1, ticket: true}, time.Now(),
		}
		h.inHand.Add(1)
		h.writes("m", changes.Fate{Cancelled: true, Last: m.stamp.at})
		time.Sleep(2 * time.Second) // and a mark after it
		h.due(h.consumer, m)
		time.Sleep(2 * time.Second)
		require.Empty(t, h.delivered())
		require.Equal(t, []uint64{1}, h.acknowledged())
	})
}

func TestTicket_NothingCanBeWritten(t *testing.T) {
	inMemory(t, func(h *memory) {
		time.Sleep(10 * time.Second)
		h.refuse(true)
		h.takes("kept", 5*time.Second, true)
		time.Sleep(time.Minute)
		require.Empty(t, h.delivered())
		h.refuse(false)
		time.Sleep(time.Second)
		require.Contains(t, h.delivered(), "kept")
	})
}

func TestTicket_TimeIsUnknown(t *testing.T) {
	inMemory(t, func(h *memory) {
		h.takes("kept", 5*time.Second, true)
		h.slotRouter.clock.set(&fakeClock{unknown: true})
		time.Sleep(time.Minute)
		require.Empty(t, h.delivered())
		h.slotRouter.clock.set(&fakeClock{})
		time.Sleep(2 * time.Second)
		require.Contains(t, h.delivered(), "kept")
	})
}

func TestTicket_Postponed(t *testing.T) {
	inMemory(t, func(h *memory) {
		began := time.Now()
		later := h.takes("later", 10*time.Second, true)
		twice := h.takes("twice", 10*time.Second, true)
		h.writes("later", postponement(later, 30*time.Second))
		h.writes("twice", postponement(twice, 5*time.Second))
		newest := postponement(twice, 20*time.Second)
		newest.Revision++
		h.writes("twice", newest)
		time.Sleep(time.Minute)
		require.Equal(t, map[string]time.Time{
			"later": began.Add(40 * time.Second), "twice": began.Add(30 * time.Second),
		}, h.delivered())
	})
}

// TestTicket_PostponedThenCancelled: with the new ticket, or the old one.
func TestTicket_PostponedThenCancelled(t *testing.T) {
	inMemory(t, func(h *memory) {
		one := h.takes("one", 10*time.Second, true)
		h.writes("one", postponement(one, 30*time.Second))
		time.Sleep(20 * time.Second)
		require.Empty(t, h.delivered())
		h.writes("one", cancelled(one))
		time.Sleep(time.Minute)
		require.Empty(t, h.delivered())
		require.Equal(t, []uint64{1}, h.acknowledged())
	})
}

// TestChangeLog_WritesAgain: what the stream has lost, as one that was deleted, is written again by
// who knows it.
func TestChangeLog_WritesAgain(t *testing.T) {
	inMemory(t, func(h *memory) {
		h.writes("a", changes.Fate{Cancelled: true, Due: math.MaxInt32 * 1000, Last: math.MaxInt32 * 1000})
		time.Sleep(time.Minute)
		h.mu.Lock()
		h.stream, h.read = nil, 0 // another one
		h.mu.Unlock()
		h.changes.again()
		time.Sleep(10 * time.Second)
		h.mu.Lock()
		defer h.mu.Unlock()
		written := 0
		for _, body := range h.stream {
			e, ok := changes.Parse(body)
			require.True(t, ok)
			written += len(e.Changes)
		}
		require.Equal(t, 1, written)
	})
}

// TestChangeLog_ShortLived: a controller that has just begun writes again what the stream would drop soon,
// unless it is over.
func TestChangeLog_ShortLived(t *testing.T) {
	inMemory(t, func(h *memory) {
		soon, past := time.Now().Add(time.Hour).UnixMilli(), time.Now().Add(-changes.KeptAfterStart-time.Hour).UnixMilli()
		old := changes.Entry{Written: time.Now().Add(-3 * writtenAgain / 2).UnixMilli(), Changes: map[string]changes.Fate{
			"waits": {Cancelled: true, Due: soon, Last: soon}, "is over": {Cancelled: true, Due: past, Last: past},
		}}
		_ = h.store(t.Context(), broker.Publishing{Message: amqp091.Publishing{Body: old.Body()}})
		time.Sleep(5 * time.Second)
		h.mu.Lock()
		defer h.mu.Unlock()
		again := map[string]bool{}
		for _, body := range h.stream {
			e, _ := changes.Parse(body)
			for id := range e.Changes {
				again[id] = again[id] || e.Written > old.Written
			}
		}
		require.Equal(t, map[string]bool{"waits": true, "is over": false}, again)
	})
}

// TestChangeLog_WhenCurrent: only a mark that was sent later counts.
func TestChangeLog_WhenCurrent(t *testing.T) {
	inMemory(t, func(h *memory) {
		time.Sleep(time.Minute)
		h.stall(true)
		h.takes("wants marks", time.Second, true)
		time.Sleep(2*time.Second + 10*time.Millisecond) // between two marks
		h.refuse(true)
		done := make(chan time.Time, 1)
		h.changes.whenCurrent(func() { done <- time.Now() })
		began := time.Now()
		h.stall(false)
		time.Sleep(20 * time.Second)
		require.Empty(t, done)
		h.refuse(false)
		require.GreaterOrEqual(t, (<-done).Sub(began), 20*time.Second)
	})
}

// TestWriteAgain: a change that may be stored is not called unsent because a later attempt was.
func TestWriteAgain(t *testing.T) {
	unknown, unsent := &delayer.Error{Kind: delayer.ErrUnknown, Cause: io.EOF}, &delayer.Error{Kind: delayer.ErrNotSent, Cause: io.EOF}
	returned := fmt.Errorf("%w", broker.ErrReturned)
	for name, c := range map[string]struct {
		answers []error
		doubts  int
		want    error
	}{
		"written":              {[]error{nil}, 0, nil},
		"not sent":             {[]error{unsent}, 0, delayer.ErrNotSent},
		"perhaps, then surely": {[]error{unknown, nil}, 0, nil},
		"perhaps, then not":    {[]error{unknown, unsent}, 0, delayer.ErrUnknown},
		"perhaps three times":  {[]error{unknown, unknown, unknown}, 0, delayer.ErrUnknown},
		"the stream was gone":  {[]error{returned, nil}, 1, nil},
		"it is gone":           {[]error{returned, returned, returned}, 3, broker.ErrReturned},
		"perhaps, and gone":    {[]error{unknown, returned, returned}, 2, delayer.ErrUnknown},
	} {
		calls, doubts := 0, 0
		err := writeAgain(t.Context(), func() { doubts++ }, func() error { calls++; return c.answers[calls-1] })
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, len(c.answers), calls, name)
		require.Equal(t, c.doubts, doubts, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := writeAgain(ctx, func() {}, func() error { cancel(); return unknown })
	require.ErrorIs(t, err, delayer.ErrUnknown)
	calls := 0
	err = writeAgain(ctx, func() {}, func() error { calls++; return unsent })
	require.ErrorIs(t, err, delayer.ErrNotSent)
	require.Equal(t, 1, calls)
}

func TestPostponed(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	now := brokertime.Reading{Latest: noon, From: noon}
	was := ticket.Ticket{ID: "m", Due: noon.Add(time.Minute).UnixMilli(), Since: 5, From: 6, Read: 7, Revision: 3}
	next, err := postponed(was, now, time.Hour+time.Nanosecond)
	require.NoError(t, err)
	require.Equal(t, ticket.Ticket{
		ID: "m", Due: noon.Add(time.Hour + time.Millisecond).UnixMilli(), Since: noon.UnixMilli(), From: 6, Read: 7, Revision: 4,
	}, next)
	for _, same := range []time.Duration{time.Minute, time.Minute - sameWithin} {
		next, err = postponed(was, now, same)
		require.NoError(t, err)
		require.Equal(t, was, next)
	}
	_, err = postponed(was, now, time.Minute-sameWithin-time.Millisecond)
	require.EqualError(t, err, "delayer: postpone controller message m: delay out of range: that is 1.001s before the time of the ticket, "+
		"and a message can only be postponed (to make a message earlier: Cancel, and Schedule it anew)")
	was.Revision = ticket.MaxRevision
	_, err = postponed(was, now, time.Hour)
	require.ErrorIs(t, err, delayer.ErrOutOfRange)
}

// TestSeated: which slots are searched for a message that is postponed.
func TestSeated(t *testing.T) {
	w, noon := wheel.Default(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) int64 { return noon.Add(d).UnixMilli() }
	ticketOf := func(d time.Duration) ticket.Ticket {
		return ticket.Ticket{Due: in(d), From: in(d), Read: w.Reads(w.Place(noon, noon.Add(d))).UnixMilli()}
	}
	move := func(was ticket.Ticket, at, due time.Duration) (ticket.Ticket, []wheel.Slot) {
		next := was
		next.Due = in(due)
		next, turns := seated(w, was, next, noon.Add(at))
		var slots []wheel.Slot
		for _, turn := range turns {
			slots = append(slots, w.Slot(turn))
		}
		return next, slots
	}
	slot := func(d time.Duration) wheel.Slot { return w.Slot(w.Place(noon, noon.Add(d))) }

	first := ticketOf(35 * time.Hour)
	later, search := move(first, time.Minute, 60*time.Hour)
	require.Empty(t, search, "it is read in time")
	require.Equal(t, first.Read, later.Read)
	require.Equal(t, first.From, later.From)
	_, search = move(later, 2*time.Minute, 11*time.Hour)
	require.Empty(t, search, "it is still in the slot of 35 h, which is read after 10 h")
	_, search = move(later, 2*time.Minute, 9*time.Hour)
	require.Equal(t, []wheel.Slot{slot(35 * time.Hour)}, search)

	moved, search := move(later, 40*time.Hour, 58*time.Hour)
	require.Equal(t, in(60*time.Hour), moved.From, "it was read at 35 h, and put where it is due at 60 h")
	hour := w.Slot(w.Place(noon.Add(40*time.Hour), noon.Add(60*time.Hour)))
	require.Equal(t, []wheel.Slot{hour}, search)
	_, search = move(later, 40*time.Hour, 59*time.Hour+50*time.Minute)
	require.Empty(t, search)

	short := ticketOf(30 * time.Second)
	_, search = move(short, time.Second, 10*time.Second)
	require.Equal(t, []wheel.Slot{slot(30 * time.Second)}, search)
	_, search = move(short, 28*time.Second, 29*time.Second)
	require.Empty(t, search, "it is in memory")
}

func TestScheduler_ATicketOfAnotherPrefix(t *testing.T) {
	text := ticket.Ticket{ID: "A1", Due: 2_000_000, Since: 1_000_000, From: 2_000_000, Read: 1_990_000}.Write("another")
	s := &scheduler{prefix: "p"}
	_, err := s.Postpone(t.Context(), text, time.Hour)
	for _, err := range []error{err, s.Cancel(t.Context(), text)} {
		require.ErrorIs(t, err, delayer.ErrTicket)
		require.ErrorContains(t, err, "another prefix")
	}
}
