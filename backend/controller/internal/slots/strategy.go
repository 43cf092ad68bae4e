package slots

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
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
	steady brokertime.Steady
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
		known := time.Duration(now.Clock.Latest.UnixNano()) - now.Mono
		now.Clock.Latest = now.Clock.Latest.Add(s.steady.Ahead(known, settle.Reading(at)) - known)
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
	if r != nil {
		r.submitted()
	}
	return entry, nil
}

// Remaining implements [engine.Reckoner]: no message that waits is misrouted by the broker.
func (s *strategy) Remaining(headers amqp091.Table) (time.Duration, bool) {
	return delivery.WhenDue(headers)
}
