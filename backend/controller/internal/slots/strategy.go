package slots

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// strategy implements [engine.Strategy], [engine.Submitter] and [engine.Reckoner].
type strategy struct {
	wheel  *Wheel
	limits delayer.Limits
	clock  *clock
	log    *publisher
	last   last
}

// last is what was published last. What is known of the broker's clock gets more exact, so that a
// message may be due a little before one with the same delay that was published before it: then it is
// due with that one.
type last struct {
	mu    sync.Mutex
	delay time.Duration
	due   brokertime.Due
}

// tardy is by how much a message may be later because of that: within the first second of a process
// the clock may get more exact by more, and order is not kept.
const tardy = 20 // ms

func (l *last) order(delay time.Duration, due brokertime.Due) brokertime.Due {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delay >= l.delay && due < l.due && due+tardy >= l.due {
		due = l.due
	}
	l.delay, l.due = delay, due
	return due
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.wheel.Plan() }

// Growth implements [engine.Strategy]: a message waits in the body of another.
func (s *strategy) Growth() message.Growth { return message.Growth{} }

// Enter implements [engine.Strategy].
func (s *strategy) Enter(context.Context, engine.Wait) (engine.Entry, error) {
	return engine.Entry{}, errors.ErrUnsupported
}

// Submit implements [engine.Submitter].
func (s *strategy) Submit(ctx context.Context, m engine.Wait, msg amqp091.Publishing) (engine.Pending, error) {
	now := s.clock.waitBriefly(ctx)
	r, _ := ctx.Value(receiptKey{}).(*receipt) // nil for an ordinary Publish
	if r != nil && !now.Known {
		return nil, &delayer.Error{Op: "schedule", Backend: "controller", Kind: delayer.ErrNotSent, Cause: errNoTime}
	}
	// The engine took the time before it bound the destination: binding is part of the delay.
	left, _ := until(m.Due.Add(stamp.Whole(m.Delay)-m.Delay), now)
	due, remaining, own := leader.Enter(now, max(0, left))
	due = s.last.order(m.Delay, due)
	if r != nil && r.due != 0 {
		due, remaining, own = r.due, 0, 0
	}
	rec, err := record(m, msg, due)
	if err != nil {
		return nil, &delayer.Error{Op: "publish", Backend: "controller", Kind: delayer.ErrInvalid, Cause: err}
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
