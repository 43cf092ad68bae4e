package misrouted

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
)

// A shift is the time from one start of the consumer to its end.
type shift struct {
	*Mover
	marker  string // the id of the marker: everything in front of it was there before
	came    origin // of what was there before
	live    bool   // the marker has come, and what was in front of it is dealt with
	working sync.WaitGroup
}

// markerKey is the routing key of a marker, and no one else's: what begins so is refused by Publish.
const markerKey = message.Reserved + ":marker"

// consume works until the consumer is lost or the Mover closes.
func (m *Mover) consume() {
	s := &shift{Mover: m, came: before}
	if m.watched.Load() {
		s.came = outage
	}
	if err := s.mark(); err != nil {
		m.failed("cannot look after misrouted messages", err)
		return
	}
	ctx, end := context.WithCancel(m.ctx)
	defer end()
	broker.Consume(ctx, m.cfg.Control.Conn(), broker.Consuming{
		Queue: m.cfg.Stage.Misrouted(), Prefetch: prefetch, Serve: s.serve,
		Failed: func(ctx context.Context, err error) {
			m.failed("cannot consume misrouted messages", err)
			m.declare(ctx, err)
			end()
		},
	})
}

// mark puts a marker into the queue.
func (s *shift) mark() error {
	e := message.NewEnvelope(time.Now(), 0, "")
	s.marker = e.ID
	ctx, cancel := context.WithTimeout(s.ctx, publishFor)
	defer cancel()
	msg := broker.Publishing{
		Exchange: s.cfg.Stage.Unroutable(), Key: markerKey, Message: message.Seal(amqp091.Publishing{}, e, nil),
	}
	err := s.cfg.Publish(ctx, msg)
	if err != nil {
		s.declare(ctx, err)
	}
	return err
}

// declare makes the topology again where something of it is gone.
func (m *Mover) declare(ctx context.Context, err error) {
	if m.cfg.Declare == nil || code(err) != amqp091.NotFound && !returned(err) {
		return
	}
	if err := m.cfg.Declare(ctx); err != nil {
		m.complain("cannot declare the queue for misrouted messages", "error", err)
	}
}

// serve deals with the messages of a channel until that is lost or the Mover closes. What is not acknowledged by then
// comes again.
func (s *shift) serve(alive context.Context, messages <-chan amqp091.Delivery) {
	ctx, stop := context.WithCancel(s.work)
	defer stop()
	defer context.AfterFunc(alive, stop)()
	defer s.working.Wait()
	// The connection may have been lost, and the lock with it, since we got that.
	if ours, err := s.lock.acquire(s.ctx); !ours || err != nil {
		return
	}
	for {
		select {
		case <-s.ctx.Done():
			return
		case d, ok := <-messages:
			if !ok {
				return
			}
			s.take(ctx, &d)
		}
	}
}

func (s *shift) take(ctx context.Context, d *amqp091.Delivery) {
	if d.RoutingKey == markerKey {
		s.passed(ctx, d)
		return
	}
	came := s.came
	if s.live && !d.Redelivered {
		came = live
	}
	s.working.Go(func() { s.settle(ctx, d, came) })
}

// passed takes out a marker. With our own, what was there before is dealt with first; what comes after it has come while
// we are here. Others are left from processes that have ended.
func (s *shift) passed(ctx context.Context, d *amqp091.Delivery) {
	text, _ := d.Headers[delayer.Header].(string)
	if e, err := message.ParseEnvelope(text); err == nil && e.ID == s.marker {
		s.working.Wait()
		if ctx.Err() != nil || s.ctx.Err() != nil {
			return
		}
		s.live = true
		s.watched.Store(true)
		if err := s.lock.announce(s.ctx); err != nil {
			s.failed("cannot tell other processes that misrouted messages are looked after", err)
		}
	}
	_ = d.Ack(false) // fails only where the channel is lost
}
