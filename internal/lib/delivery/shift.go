package delivery

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A shift is one run of the consumer.
type shift struct {
	*Mover
	marker  string // the id of the marker: messages before it were there before the shift
	came    origin // of the messages before the marker
	passed  bool   // the marker has come
	live    bool   // and all messages before it are settled
	working sync.WaitGroup
}

// markerKey is the routing key of a marker. Publish refuses keys that begin so.
const markerKey = message.Reserved + ":marker"

// consume works until the consumer is lost or the Mover closes, and returns why.
func (m *Mover) consume() (why error) {
	s := &shift{Mover: m, came: before}
	if m.watched.Load() {
		s.came = outage
	}
	ctx, end := context.WithCancel(m.ctx)
	defer end()
	broker.Consume(ctx, m.cfg.Control.Conn(), broker.Consuming{
		Queue: m.stage.Misrouted(), Prefetch: prefetch, Serve: s.serve,
		Failed: func(ctx context.Context, err error) {
			why = err
			m.failed("cannot consume misrouted messages", err)
			m.restore(ctx, err)
			end()
		},
	})
	return why
}

// mark publishes a marker to the queue, whether or not the Mover closes meanwhile.
func (s *shift) mark() error {
	e := message.NewEnvelope(time.Now(), 0, "")
	s.marker = e.ID
	msg := broker.Publishing{
		Exchange: s.stage.Unroutable(), Key: markerKey, Message: message.Seal(amqp091.Publishing{}, e, nil),
	}
	ctx, cancel := broker.Attempt(s.work, len(msg.Message.Body))
	defer cancel()
	err := s.cfg.Publisher.Publish(ctx, msg)
	if err != nil {
		s.restore(ctx, err)
	}
	return err
}

// restore declares the stage again if err shows that an object of it is gone.
func (m *Mover) restore(ctx context.Context, err error) {
	if broker.Code(err) != amqp091.NotFound && !returned(err) {
		return
	}
	if err := m.cfg.Restore(ctx, m.stage.Plan()); err != nil {
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
	if err := s.mark(); err != nil {
		s.failed("cannot look after misrouted messages", err)
		return
	}
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	for s.cfg.Watch(); ; {
		select {
		case <-watch.C:
			s.cfg.Watch()
		case <-s.ctx.Done():
			s.unmark(messages)
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
		s.pass(ctx, d)
		return
	}
	came := s.came
	if s.live && !d.Redelivered {
		came = live
	}
	s.working.Go(func() { s.settle(ctx, d, came) })
}

// pass removes a marker. Messages before our own marker are settled first; messages behind it came
// during this shift. Other markers are left from processes that were killed.
func (s *shift) pass(ctx context.Context, d *amqp091.Delivery) {
	if s.owns(d) {
		s.passed = true
		s.working.Wait()
		s.announce(ctx)
	}
	_ = d.Ack(false) // fails only if the channel is lost
}

// owns reports whether a marker is ours.
func (s *shift) owns(d *amqp091.Delivery) bool {
	e, err := delayer.ParseHeader(d.Headers)
	return err == nil && e.ID == s.marker
}

// announce tells other processes that this one is live, unless it closes.
func (s *shift) announce(ctx context.Context) {
	if ctx.Err() != nil || s.ctx.Err() != nil {
		return
	}
	s.live = true
	s.watched.Store(true)
	if err := s.lock.announce(s.ctx); err != nil {
		s.failed("cannot announce that misrouted messages are moved", err)
	}
}

// unmark removes our marker if the Mover closes before it has come, as in a process that publishes
// once and ends: it would be counted as a misrouted message. Messages before it are given back.
func (s *shift) unmark(messages <-chan amqp091.Delivery) {
	const patience = time.Second
	late := time.After(patience)
	for !s.passed {
		select {
		case d, ok := <-messages:
			if !ok {
				return
			}
			if d.RoutingKey == markerKey {
				s.passed = s.passed || s.owns(&d)
				_ = d.Ack(false) // fails only if the channel is lost
			}
		case <-late:
			return
		}
	}
}
