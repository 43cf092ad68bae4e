package slots

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// strategy implements [engine.Strategy], [engine.Submitter] and [engine.Reckoner].
type strategy struct {
	wheel  *Wheel
	clock  *clock
	log    *publisher
	steady steady
}

// A steady clock never goes back from one message to the next, so that those with the same delay are
// due in their order. What is known of the broker's clock gets more exact, and what it shows at the
// latest earlier.
type steady struct {
	mu        sync.Mutex
	ahead, at time.Duration // of the broker's clock, of that of this process; and when that was so
}

// from returns what now is for a message that was published at a time by the clock of this process.
// It may be later by up to a second because of that: at first the clock is known to a second.
func (s *steady) from(now leader.Now, at time.Duration) leader.Now {
	s.mu.Lock()
	defer s.mu.Unlock()
	ahead := time.Duration(now.Clock.Latest.UnixNano()) - now.Mono
	most := s.ahead - max(0, at-s.at)/2 // so it goes back, at half the pace of time
	if by := most - ahead; by > 0 && by <= time.Second {
		now.Clock.Latest = now.Clock.Latest.Add(by)
		ahead = most
	}
	s.ahead, s.at = ahead, max(s.at, at)
	return now
}

func (s *strategy) Limits() delayer.Limits { return s.wheel.Limits() }
func (s *strategy) Plan() topology.Plan    { return s.wheel.Plan() }

// Growth implements [engine.Strategy]: a message waits in the body of another.
func (s *strategy) Growth() message.Growth { return message.Growth{} }

// Enter implements [engine.Strategy].
func (s *strategy) Enter(context.Context, engine.Wait) (engine.Entry, error) {
	return engine.Entry{}, errors.ErrUnsupported
}

// Submit implements [engine.Submitter].
func (s *strategy) Submit(ctx context.Context, m engine.Wait, msg amqp091.Publishing) (engine.Pending, error) {
	now := s.clock.now()
	r, _ := ctx.Value(receiptKey{}).(*receipt) // nil for an ordinary Publish
	if r != nil && !now.Known {
		return nil, &delayer.Error{Op: "schedule", Backend: backend, Kind: delayer.ErrNotSent, Cause: errNoTime}
	}
	// The engine took the time before it bound the destination: binding is part of the delay.
	at := m.Due.Add(-m.Delay)
	left := until(at.Add(settle.Whole(m.Delay)), now)
	if now.Known {
		now = s.steady.from(now, settle.Reading(at))
	}
	due, remaining, own := leader.Enter(now, max(0, left))
	if r != nil && r.due != 0 {
		due, remaining, own = r.due, 0, 0
	}
	rec, err := record(m, msg, due)
	if err != nil {
		return nil, &delayer.Error{Op: "publish", Backend: backend, Kind: delayer.ErrInvalid, Cause: err}
	}
	rec.Due, rec.Left, rec.Own, rec.Ticket = due, remaining, own, r != nil
	if r != nil {
		r.ticket = ticket{id: rec.ID, due: due}
	}
	entry, err := s.log.submit(ctx, rec)
	if err != nil {
		return nil, err
	}
	return entry, nil
}

// Remaining implements [engine.Reckoner]: no message that waits is misrouted by the broker.
func (s *strategy) Remaining(headers amqp091.Table) (time.Duration, bool) {
	return delivery.WhenDue(headers)
}
