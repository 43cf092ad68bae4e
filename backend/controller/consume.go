package controller

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
)

// A session is one life of the consumer's channel. What it holds is forgotten with it: the broker delivers that
// again.
type session struct {
	*runner
	alive   context.Context // ends when nothing can be acknowledged any more
	holder  *holder
	working sync.WaitGroup // messages that are being published
}

// serve takes messages until the channel is lost or the runner closes.
func (r *runner) serve(alive context.Context, messages <-chan amqp091.Delivery) {
	alive, give := context.WithCancelCause(alive)
	s := &session{runner: r, alive: alive, holder: newHolder(mostHeld, mostHeldBytes)}
	holding, forget := context.WithCancel(alive)
	defer context.AfterFunc(r.ctx, forget)()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.holder.run(holding)
	}()
	s.take(messages)
	forget()
	<-kept
	defer time.AfterFunc(drainTimeout, func() { give(context.DeadlineExceeded) }).Stop()
	s.working.Wait()
	give(nil)
}

// take returns when no more messages come.
func (s *session) take(messages <-chan amqp091.Delivery) {
	pulse, look := newPulse(), time.NewTicker(pingEvery)
	defer look.Stop()
	for {
		select {
		case d, ok := <-messages:
			if !ok {
				return
			}
			pulse.hear()
			s.handle(&d)
		case <-look.C:
			switch {
			case s.holder.holds():
				pulse.hear() // at work; and where memory is full, nothing comes
			case pulse.gone():
				s.log.Warn("the controller gets nothing from its queue, though there is something; it consumes anew",
					"queue", s.blueprint.names.intake())
				return
			case pulse.quiet():
				s.work(func() { s.ping(pulse) })
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// A parcel is a message of ours that has come out of the intake.
type parcel struct {
	*amqp091.Delivery
	envelope message.Envelope
	stamp    stamp
}

// handle never waits: other messages are behind this one.
func (s *session) handle(d *amqp091.Delivery) {
	now := time.Now()
	p, err := open(d)
	if err != nil && isPing(d) {
		s.work(func() { s.acknowledge(parcel{Delivery: d}, nil) })
		return
	}
	if err != nil {
		s.work(func() { s.poison(d, err) })
		return
	}
	died, at := death(d.Headers)
	if p.stamp.clock == clockID || !died {
		remaining := p.stamp.remaining(now, died, 0)
		if early := remaining - p.stamp.left; died && early > time.Second {
			s.complain("a waiting queue let a message go too early; it waits again: is there a policy with message-ttl?",
				"message", p.envelope.ID, "early", early.Round(time.Millisecond))
		}
		s.route(p, now, remaining)
		return
	}
	s.work(func() { // asks the broker for the time
		lain := s.lain(s.alive, at)
		now := time.Now()
		s.route(p, now, p.stamp.remaining(now, died, lain))
	})
}

// work runs f beside others, and keeps the session open until it is done.
func (s *session) work(f func()) {
	s.working.Add(1)
	go func() {
		defer s.working.Done()
		f()
	}()
}

// open reads what a message says of itself.
func open(d *amqp091.Delivery) (parcel, error) {
	stamp, err := readStamp(d.Headers)
	if err != nil {
		return parcel{}, err
	}
	text, _ := d.Headers[delayer.Header].(string)
	envelope, err := message.ParseEnvelope(text)
	return parcel{d, envelope, stamp}, err
}

// route sends a message to the next queue or to its destination, or holds it.
func (s *session) route(p parcel, now time.Time, remaining time.Duration) {
	schedule := s.blueprint.schedule
	level := schedule.next(remaining)
	if level == hold {
		m := held{due: now.Add(remaining), size: len(p.Body), release: func() { s.work(func() { s.deliver(p) }) }}
		if s.holder.add(m) {
			return
		}
		level = 0
	}
	if level == deliver {
		s.work(func() { s.deliver(p) })
		return
	}
	s.work(func() { s.forward(p, level, now, remaining) })
}
