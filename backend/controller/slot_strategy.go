package controller

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// slotStrategy is the strategy of wheel: slots.
type slotStrategy struct {
	strategy
	clock   *brokerClock
	publish func(context.Context, broker.Publishing) error // set before the clock is
}

// Growth implements [engine.Strategy].
func (s *slotStrategy) Growth() message.Growth {
	g := s.strategy.Growth()
	const longestKey = 255
	g.Hops, g.NameSize = 0, 0
	g.HeaderSize += len("255:") + longestKey
	return g
}

// Enter sends a message to the slot of its due time.
func (s *slotStrategy) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	r := receiptOf(ctx)
	s.clock.await(ctx)
	to := s.blueprint.seat(s.clock, m.Key, stamp{to: m.Destinations, bcc: m.BCC, ticket: r != nil}, time.Until(dueTime(m)))
	if err := r.note(m.Envelope.ID, to); err != nil {
		return engine.Entry{}, err
	}
	late := func(ctx context.Context) error { return s.search(ctx, to.slot) }
	return engine.Entry{Exchange: to.exchange, Key: &to.key, Headers: to.stamp.header(), Before: to.before, Late: late}, nil
}

// Remaining implements [engine.Reckoner]. No message of a slot is misrouted by the broker. One with a
// stamp was moved by somebody.
func (s *slotStrategy) Remaining(headers amqp091.Table) (time.Duration, bool) {
	if _, stamped := headers[message.Stamp]; !stamped {
		return delivery.WhenDue(headers)
	}
	at, err := readStamp(headers)
	if err != nil {
		return 0, false
	}
	return incoming{stamp: at, came: time.Now()}.left(s.clock)
}
