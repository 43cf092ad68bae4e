package rounds

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// strategy implements [engine.Strategy] and [engine.Reckoner].
type strategy struct {
	wheel  *Wheel
	limits delayer.Limits
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.wheel.Plan() }

// Growth implements [engine.Strategy]. The delivery keys and the user's BCC travel in a header of
// ours, beside the times of the stamp.
func (s *strategy) Growth() message.Growth {
	const times = 165
	return message.Growth{Hops: 1, NameSize: len(s.wheel.names.wait(0)), HeaderSize: times, Carried: true}
}

// Enter sends a message to the longest queue that ends before it is due, or straight to a
// controller.
func (s *strategy) Enter(_ context.Context, m engine.Wait) (engine.Entry, error) {
	now := time.Now()
	// The engine took the time before it bound the destination: binding is part of the delay.
	remaining := m.Due.Add(stamp.Whole(m.Delay) - m.Delay).Sub(now)
	exchange, hop := s.wheel.names.enter(), time.Duration(0)
	if level := s.wheel.schedule.next(remaining); level >= 0 {
		exchange, hop = s.wheel.names.wait(level), s.wheel.schedule.ttl(level)
	}
	first := stamp.Stamp{To: m.Destinations, BCC: m.BCC}.Next(now, remaining, hop)
	first.Priority = m.Priority
	return engine.Entry{Exchange: exchange, Headers: first.Header(), Ordered: true}, nil
}

// Remaining implements [engine.Reckoner]. A misrouted message with a stamp was between two waiting
// queues. One without a stamp was published when it was due.
func (s *strategy) Remaining(headers amqp091.Table) (time.Duration, bool) {
	if _, stamped := headers[message.Stamp]; !stamped {
		return delivery.WhenDue(headers)
	}
	at, err := stamp.Read(headers)
	if err != nil {
		return 0, false
	}
	return at.Remaining(time.Now(), stamp.Expired(headers)), true
}
