package slots

import (
	"context"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// strategy implements [engine.Strategy] and [engine.Reckoner].
type strategy struct {
	wheel  *Wheel
	limits delayer.Limits
	clock  *clock
}

func (s *strategy) Limits() delayer.Limits { return s.limits }
func (s *strategy) Plan() topology.Plan    { return s.wheel.Plan() }

// Growth implements [engine.Strategy]. The user's key and BCC, the delivery keys and the times
// travel in a header of ours. Where a ticket is postponed several times, so do those times.
func (s *strategy) Growth() message.Growth {
	const longestKey, times, later = 255, 160 + len(" p255"), len(" n16725225600000")
	return message.Growth{HeaderSize: times + len("255:") + longestKey + wheel.MostThen*later, Carried: true}
}

// Enter sends a message to the slot of its due time. While the broker's time is unknown it goes to
// the intake, and a controller places it.
func (s *strategy) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	now := s.clock.waitBriefly(ctx)
	names := s.wheel.names
	// The engine took the time before it bound the destination: binding is part of the delay.
	left, at := until(m.Envelope.Due.Add(stamp.Whole(m.Delay)-m.Delay), now)
	r, _ := ctx.Value(receiptKey{}).(*receipt) // nil for an ordinary Publish
	first := stamp.Stamp{Ticket: r != nil, Priority: m.Priority, Key: &m.Key, To: m.Destinations, BCC: m.BCC}
	first.Clock, first.OwnDue = stamp.Own(stamp.Reading(at) + left)
	if !now.Known {
		if r != nil {
			return engine.Entry{}, &delayer.Error{Op: "schedule", Backend: "controller", Kind: delayer.ErrNotSent, Cause: errNoTime}
		}
		first.Left = left
		return engine.Entry{Exchange: names.enter(), Headers: first.Header(), Ordered: true}, nil
	}
	to, due, within := s.wheel.wheel.Enter(now, left)
	first.Due = due
	if left > wheel.OwnFor {
		first.Clock, first.OwnDue = stamp.Foreign, 0
	}
	if r != nil {
		r.ticket = ticket{id: m.Envelope.ID, due: due}
	}
	key := names.slotKey(s.wheel.wheel.Slot(to))
	return engine.Entry{
		Exchange: names.enterSlots(), Key: &key, Headers: first.Header(), Before: at.Add(within), Ordered: true,
		Late: func(context.Context) error { return s.wheel.late(s.clock.now(), to) },
	}, nil
}

// late is the error of a message that was confirmed late, if it may have come to its slot when that
// was at rest.
func (w *Wheel) late(now wheel.Now, to wheel.Turn) error {
	if !w.wheel.Late(now, to) {
		return nil
	}
	level := w.wheel[to.Level]
	return fmt.Errorf("it was confirmed when its slot may have been closed; then it waits for the slot's next turn, up to %v",
		time.Duration(level.Slots)*level.Width)
}

// Remaining implements [engine.Reckoner]. No message of a slot is misrouted by the broker. One with
// a stamp was moved by somebody.
func (s *strategy) Remaining(headers amqp091.Table) (time.Duration, bool) {
	if _, stamped := headers[message.Stamp]; !stamped {
		return delivery.WhenDue(headers)
	}
	at, err := stamp.Read(headers)
	if err != nil {
		return 0, false
	}
	now := s.clock.now()
	switch {
	case at.Own():
		return at.OwnDue - now.Mono, true
	case at.Due == 0:
		return at.Left, true
	}
	return now.Until(at.Due), now.Known
}
