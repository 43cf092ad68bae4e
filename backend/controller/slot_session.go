package controller

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A session consumes one slot, or the intake, until it is stopped.
type session struct {
	*hand
	queue    string
	visit    wheel.Visit
	past     bool    // it was opened after its turn
	search   *search // nil: none
	sample   bool    // it takes few messages, since their size is unknown
	prefetch int

	cancel  context.CancelFunc
	over    chan struct{} // closed when it has ended
	served  atomic.Bool   // it has consumed: a queue may take its time, as one that is read from disk does
	tookDue atomic.Bool   // it took a message that was due
	inHand  atomic.Int64  // messages that are held or being published
	touched atomic.Int64  // when a message last came or was finished, by reading
}

const (
	// mostOfTurn is how many messages of a slot are taken at a time in its turn, by level; where
	// bodies are large, fewer.
	mostOfSeconds, mostOfMinutes, mostOfOthers = 32000, 8192, 1024
	// mostAfterTurn is how many are taken of a slot whose turn is over.
	mostAfterTurn = 256
	// mostAtRest is how many are taken of a slot that is looked at between its turns.
	mostAtRest = 32
	// mostUnknown is how many are taken while the size of messages is unknown. A controller that starts
	// must not take gigabytes.
	mostUnknown = 16
	// mostBytes is about how many bytes a session holds, of messages that are besideBody larger than
	// their bodies.
	mostBytes  = 32 << 20
	besideBody = 1 << 10
	// leftFor is how long a message that is not for this turn stays in hand before it is looked at
	// again. It goes back when the session ends.
	leftFor = 10 * time.Second
	// unknownFor is how long a message is held until the broker's time is asked for again.
	unknownFor = time.Second
)

// prefetchFor bounds a session in messages, and in bytes by the average size of recent ones.
func prefetchFor(v wheel.Visit, past bool, average int64) int {
	most := mostOfOthers
	switch {
	case average == 0:
		return mostUnknown
	case v.Resting:
		most = mostAtRest
	case past:
		most = mostAfterTurn
	case v.Level == 0:
		most = mostOfSeconds
	case v.Level == 1:
		most = mostOfMinutes
	}
	return int(min(int64(most), max(mostBytes/average, mostUnknown)))
}

// consumeSlot consumes until ctx ends.
func consumeSlot(ctx context.Context, s *session) {
	if s.search != nil {
		s.search.begin(s.count(ctx, s.queue))
	}
	if !s.visit.Resting && s.visit.Level > 0 {
		ready, err := s.count(ctx, s.queue)
		s.visit.Fits = err == nil && ready <= s.prefetch
	}
	broker.Consume(ctx, s.in, broker.Consuming{
		Queue: s.queue, Prefetch: s.prefetch, Failed: s.failed,
		Serve: func(alive context.Context, messages <-chan amqp091.Delivery) { s.serve(ctx, alive, messages) },
	})
}

// serve takes the messages of one channel.
func (s *session) serve(ctx, alive context.Context, messages <-chan amqp091.Delivery) {
	s.inHand.Store(0)
	s.touch()
	s.served.Store(true)
	if s.search != nil {
		s.search.taken.Store(0) // what was taken and not acknowledged comes again
	}
	r := &slotRouter{session: s}
	c := s.newConsumer(alive, r, math.MaxInt, math.MaxInt) // the prefetch bounds it
	c.during(ctx, func() { r.take(ctx, c, messages) })
	if r.stop != nil {
		r.stop() // all that is done is acknowledged
	}
}

func (s *session) touch() { s.touched.Store(int64(reading(time.Now()))) }

// ended reports whether the session has ended.
func (s *session) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// idle reports whether nothing is in hand, and was for this long.
func (s *session) idle(since time.Duration) bool {
	return s.inHand.Load() == 0 && reading(time.Now())-time.Duration(s.touched.Load()) >= since
}

// sampled reports whether the session is to be opened anew, since the size of messages is known by now.
func (s *session) sampled() bool { return s.sample && s.average.Load() != 0 }

// more reports whether there may be more for a session that has ended: it took a sample, or the broker
// may have paused amid what is due, since it is slow.
func (s *session) more() bool { return s.search == nil && (s.sampled() || s.tookDue.Load()) }

// failed declares the topology again, since the slot may be gone. What was due meanwhile is looked
// for.
func (s *session) failed(ctx context.Context, err error) {
	s.warn("the controller lost a channel", "queue", s.queue, "error", err)
	s.lookAround.Store(true)
	s.declareAgain(ctx)
}

// slotRouter is the router of one channel's messages.
type slotRouter struct {
	*session
	acks *acks
	stop func() // of acks; nil before the first message
}

// take returns when no more messages come.
func (r *slotRouter) take(ctx context.Context, c *consumer, messages <-chan amqp091.Delivery) {
	for {
		select {
		case d, ok := <-messages:
			if !ok {
				return
			}
			r.begin(d.Acknowledger)
			r.inHand.Add(1)
			r.touch()
			r.weigh(len(d.Body))
			r.accept(c, &d)
		case <-ctx.Done():
			return
		}
	}
}

// accept takes one message.
func (r *slotRouter) accept(c *consumer, d *amqp091.Delivery) {
	if r.search != nil {
		r.search.taken.Add(1)
	}
	slot, asked := r.blueprint.searched(d)
	if !asked || r.visit.Turn != wheel.None {
		c.handle(d)
		return
	}
	r.changes.whenCurrent(func() { // what is searched for may have been postponed
		r.searches.add(slot, func() { // until then it is not acknowledged: another controller may have to search
			if c.alive.Err() == nil {
				r.acknowledge(d)
			}
		})
	})
}

// begin starts to acknowledge with the first message.
func (r *slotRouter) begin(channel amqp091.Acknowledger) {
	if r.stop != nil {
		return
	}
	r.acks = newAcks(func(tag uint64, multiple bool) { _ = channel.Ack(tag, multiple) }) // fails only if the channel is lost
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		r.acks.run(ctx)
	}()
}

// route implements [router].
func (r *slotRouter) route(c *consumer, m incoming) {
	m, gone := r.current(m)
	if gone {
		r.acknowledge(m.Delivery)
		return
	}
	remaining, ok := m.left(r.clock)
	now, known := r.clock.read()
	switch {
	case ok && remaining <= 0:
		r.tookDue.Store(true)
		r.due(c, m)
		return
	case !ok:
		r.hold(c, m, unknownFor)
		return
	case !known:
		r.hold(c, m, min(remaining, unknownFor))
		return
	}
	step, _ := r.wheel.Next(r.visit, now.Earliest, now.Earliest.Add(remaining))
	if step == wheel.Leave && r.search.moves() {
		step = wheel.Move
	}
	switch step {
	case wheel.Leave:
		r.inHand.Add(-1)
		c.hold(time.Now().Add(min(leftFor, remaining)), len(m.Body), func() { r.inHand.Add(1); r.route(c, m) })
	case wheel.Move:
		c.work(func() { r.move(c, m, m.stamp, time.Now().Add(remaining)) })
	default:
		r.hold(c, m, r.slice(m, remaining))
	}
}

// hold keeps a message in memory, and decides again after that. The clocks may have been corrected.
func (r *slotRouter) hold(c *consumer, m incoming, wait time.Duration) {
	c.hold(time.Now().Add(wait), len(m.Body), func() { r.route(c, m) })
}

// move publishes a message to the slot of its due time, which each attempt chooses anew.
func (r *slotRouter) move(c *consumer, m incoming, s stamp, due time.Time) {
	c.move(m.Delivery, func() (time.Duration, error) {
		to := r.blueprint.seat(r.clock, m.RoutingKey, s, time.Until(due))
		err := r.publisher.Publish(c.alive, broker.Publishing{
			Exchange: to.exchange, Key: to.key, Before: to.before,
			Message: message.Seal(message.Again(m.Delivery, r.user), m.envelope, to.stamp.header()),
		})
		if err == nil && to.late() {
			r.searches.add(to.slot)
		}
		return to.wait, err
	})
}

// again implements [router].
func (r *slotRouter) again(c *consumer, m incoming) {
	s := m.stamp
	s.at, s.ticket = 0, false // it was decided that it is delivered
	r.move(c, m, s, time.Now().Add(postponedFor))
}

// keepAgain implements [router].
func (r *slotRouter) keepAgain(c *consumer, d *amqp091.Delivery, _ amqp091.Publishing, why error) {
	c.hold(time.Now().Add(postponedFor), len(d.Body), func() { c.work(func() { c.keep(d, why) }) })
}

// acknowledge implements [router].
func (r *slotRouter) acknowledge(d *amqp091.Delivery) {
	r.acks.done(d.DeliveryTag)
	r.touch()
	r.inHand.Add(-1)
}
