package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A hand turns the wheel: it consumes the slots whose turn is near, and the intake.
//
// What is left in a slot after its turn, because no controller ran or none had a connection, is at
// the head of its queue. So when a hand starts, when a channel was lost and when the broker's clock
// was set, it looks at all slots that are not empty, and once more two minutes later.
type hand struct {
	*runner
	in    *broker.Conn
	clock *brokerClock
	wheel wheel.Wheel

	intake   *session
	sessions map[wheel.Slot]*session

	changes *changeLog

	searches   searches
	lookAround atomic.Bool   // at all slots
	lookAgain  time.Duration // by reading; 0: never
	looking    bool
	found      chan []wheel.Slot // the slots that are not empty
	last       time.Time         // the broker's time in the last round
	lastAt     time.Duration     // the reading then
	average    atomic.Int64      // bytes of a message; 0: unknown

	begin func(context.Context, *session) // consumes until ctx ends
	send  func(*consumer, incoming)       // delivers
	count func(ctx context.Context, queue string) (ready int, err error)
}

const (
	handEvery = 200 * time.Millisecond
	// quietFor is how long a session must be idle whose turn is over.
	quietFor = 2 * time.Second
	// renewAfter is how long a session may be idle at all. If a queue is deleted and declared again
	// within milliseconds, its consumer gets nothing any more, and is not told: see internal/rounds/liveness.go.
	renewAfter = time.Minute
	// stepped is by how much the broker's clock may disagree with what was known of it.
	stepped = 10 * time.Second
	// lookAgainAfter is longer than a broker takes to notice that a controller's machine is gone.
	lookAgainAfter = brokertime.NoticedWithin
)

func newHand(r *runner, in *broker.Conn, c *brokerClock) *hand {
	h := &hand{
		runner: r, in: in, clock: c, wheel: r.blueprint.wheel, sessions: map[wheel.Slot]*session{}, found: make(chan []wheel.Slot),
		begin: consumeSlot, send: (*consumer).deliver, count: r.ready,
	}
	h.changes = newChangeLog(r, in, c)
	h.lookAround.Store(true)
	return h
}

// run turns until ctx ends, and then ends all sessions.
func (h *hand) run(ctx context.Context) {
	for ctx.Err() == nil {
		h.turn(ctx)
		select {
		case <-time.After(handEvery/2 + rand.N(handEvery)): // of several controllers another is the first each time
		case slots := <-h.found:
			h.visit(ctx, slots)
		case <-ctx.Done():
		}
	}
	for _, s := range h.sessions {
		<-s.over
	}
	if h.intake != nil {
		<-h.intake.over
	}
	if h.looking {
		<-h.found
	}
}

// turn opens and ends sessions.
func (h *hand) turn(ctx context.Context) {
	if h.intake == nil || h.intake.ended() {
		h.intake = h.open(ctx, h.blueprint.names.intake(), wheel.Visit{Turn: wheel.None}, false, nil)
	}
	if h.intake.idle(renewAfter) || h.intake.sampled() {
		h.intake.cancel()
	}
	known, ok := h.clock.read()
	if !ok {
		return
	}
	earliest, latest := known.Earliest, known.Latest
	h.compare(latest)
	open := map[wheel.Slot]wheel.Turn{}
	for _, turn := range h.wheel.Open(earliest, latest) {
		open[h.wheel.Slot(turn)] = turn
	}
	for slot, s := range h.sessions {
		turn, wanted := open[slot]
		if s.idle(h.patience(s, turn, wanted, earliest)) || s.sampled() {
			s.cancel()
		}
		if s.ended() {
			if !s.served.Load() {
				h.lookAround.Store(true) // what it was for may still be there
			}
			delete(h.sessions, slot)
			h.endSearch(slot, s, wanted)
			if !wanted && s.more() {
				h.rest(ctx, slot, latest)
			}
		}
	}
	for slot, turn := range open {
		if h.sessions[slot] == nil {
			h.sessions[slot] = h.open(ctx, h.blueprint.slot(slot), wheel.Visit{Turn: turn}, h.wheel.Past(turn, earliest), nil)
		}
	}
	h.startSearches(ctx, latest)
	h.startLooking(ctx)
}

// startLooking looks at all slots if there is a reason, and once more after some time: publishers
// notice later than this hand that the broker's clock was set, and a controller that looked at the
// same time and was the first may have died with what it took.
func (h *hand) startLooking(ctx context.Context) {
	at := reading(time.Now())
	switch {
	case h.looking:
		return
	case h.lookAround.Swap(false):
		h.lookAgain = at + lookAgainAfter
	case h.lookAgain != 0 && at > h.lookAgain:
		h.lookAgain = 0
	default:
		return
	}
	h.looking = true
	go h.look(ctx)
}

// patience is how long a session must be idle to be ended.
func (h *hand) patience(s *session, turn wheel.Turn, wanted bool, now time.Time) time.Duration {
	switch {
	case wanted && (s.visit.Resting || s.visit.Turn != turn):
		return 0 // its slot is to be consumed for this turn
	case s.served.Load() && (!wanted || !s.past && h.wheel.Past(turn, now)):
		return quietFor
	}
	return renewAfter
}

// compare notices that the broker's clock was set.
func (h *hand) compare(now time.Time) {
	at := reading(time.Now())
	if off := now.Sub(h.last) - (at - h.lastAt); !h.last.IsZero() && off.Abs() > stepped {
		h.lookAround.Store(true)
	}
	h.last, h.lastAt = now, at
}

// look finds the slots that are not empty, or may not be. If that fails it is done again after a
// while: a slot may be gone, and may stay so.
func (h *hand) look(ctx context.Context) {
	var slots []wheel.Slot
	for _, slot := range h.wheel.Slots() {
		ready, err := h.count(ctx, h.blueprint.slot(slot))
		if err != nil && !errors.Is(err, errSlow) {
			h.lookAround.Store(true)
			select {
			case <-time.After(longestPause):
			case <-ctx.Done():
			}
			break
		}
		if err != nil || ready > 0 {
			slots = append(slots, slot)
		}
	}
	h.found <- slots
}

// visit looks at slots between their turns.
func (h *hand) visit(ctx context.Context, slots []wheel.Slot) {
	h.looking = false
	known, ok := h.clock.read()
	if !ok {
		h.lookAround.Store(true)
		return
	}
	for _, slot := range slots {
		if h.sessions[slot] == nil {
			h.rest(ctx, slot, known.Latest)
		}
	}
}

// rest opens a session of a slot between its turns.
func (h *hand) rest(ctx context.Context, slot wheel.Slot, now time.Time) {
	visit := wheel.Visit{Turn: h.wheel.Upcoming(slot, now), Resting: true}
	h.sessions[slot] = h.open(ctx, h.blueprint.slot(slot), visit, false, nil)
}

// open starts a session.
func (h *hand) open(ctx context.Context, queue string, v wheel.Visit, past bool, found *search) *session {
	average := h.average.Load()
	s := &session{
		hand: h, queue: queue, visit: v, past: past, search: found,
		sample: average == 0, prefetch: prefetchFor(v, past, average), over: make(chan struct{}),
	}
	s.touch()
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.over)
		h.begin(ctx, s)
	}()
	return s
}

// errSlow says that a queue may not have been asked: RabbitMQ answers 0 for a quorum queue that takes
// longer than 250 ms, as one does that is read from disk after a start; see objects.Holds.
var errSlow = errors.New("the queue takes too long to answer")

const slowAfter = 200 * time.Millisecond

// ready is the number of messages in a queue that no consumer has. The error is errSlow if that is not
// known.
func (r *runner) ready(ctx context.Context, queue string) (int, error) {
	const durable, autoDelete, exclusive, waitForAnswer = true, false, false, false
	messages, err := broker.Ask(ctx, r.control, func(ch *amqp091.Channel) (int, error) {
		asked := time.Now()
		q, err := ch.QueueDeclarePassive(queue, durable, autoDelete, exclusive, waitForAnswer, nil)
		if err == nil && q.Messages == 0 && time.Since(asked) > slowAfter {
			err = errSlow
		}
		return q.Messages, err
	})
	if broker.Code(err) == amqp091.NotFound {
		err = nil
	}
	return messages, err
}

// weigh keeps the average size of about the last 64 messages. Concurrent values may get lost.
func (h *hand) weigh(body int) {
	size, average := int64(body+besideBody), h.average.Load()
	if average == 0 {
		average = size
	}
	h.average.Store(average + (size-average)/64)
}
