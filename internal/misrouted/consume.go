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

// A shift is one run of the consumer.
type shift struct {
	*Mover
	marker  string // the id of the marker: messages before it were there before the shift
	came    origin // of the messages before the marker
	live    bool   // the marker has come, and all messages before it are settled
	working sync.WaitGroup
}

// markerKey is the routing key of a marker. Publish refuses keys that begin so.
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

// mark publishes a marker to the queue.
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

// declare declares the topology if err shows that an object is gone.
func (m *Mover) declare(ctx context.Context, err error) {
	if m.cfg.Declare == nil || broker.Code(err) != amqp091.NotFound && !returned(err) {
		return
	}
	if err := m.cfg.Declare(ctx); err != nil {
		m.complain("cannot declare the queue for misrouted messages", "error", err)
	}
}

// serve settles the messages of a channel until it is lost or the Mover closes. The broker
// redelivers the rest.
func (s *shift) serve(alive context.Context, messages <-chan amqp091.Delivery) {
	ctx, stop := context.WithCancel(s.work)
	defer stop()
	defer context.AfterFunc(alive, stop)()
	defer s.working.Wait()
	// The connection, and the lock with it, may have been lost since we got the lock.
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

// passed removes a marker. Messages before our own marker are settled first; messages behind it
// came during this shift. Other markers are left from processes that have ended.
func (s *shift) passed(ctx context.Context, d *amqp091.Delivery) {
	if e, err := delayer.ParseHeader(d.Headers); err == nil && e.ID == s.marker {
		s.working.Wait()
		if ctx.Err() != nil || s.ctx.Err() != nil {
			return
		}
		s.live = true
		s.watched.Store(true)
		if err := s.lock.announce(s.ctx); err != nil {
			s.failed("cannot announce that misrouted messages are moved", err)
		}
	}
	_ = d.Ack(false) // fails only if the channel is lost
}
