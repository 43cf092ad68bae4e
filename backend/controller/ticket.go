package controller

import (
	"errors"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/slots"
)

// A Scheduled message is what a ticket names. Whether the message still waits, and where it goes, a
// ticket does not tell.
type Scheduled struct {
	ID  string    // see [delayer.Envelope]
	Due time.Time // when it was due by the time of this ticket, by the broker's clock
}

// ReadTicket reads a ticket, for whoever looks at what waits. It asks no broker. Errors are
// ErrConfig, ErrTicket, whose cause says why it is no ticket of this configuration, and
// [errors.ErrUnsupported] for [Rounds], which have none.
func ReadTicket(cfg Config, t delayer.Ticket) (Scheduled, error) {
	const op = "read"
	w, _, err := newShape(cfg)
	if err != nil {
		return Scheduled{}, err
	}
	wheel, is := w.(*slots.Wheel)
	if !is {
		return Scheduled{}, &delayer.Error{
			Op: op, Backend: Name, Object: "ticket", Kind: errors.ErrUnsupported, Cause: errors.New("rounds have no tickets"),
			Hint: "use wheel slots, the default",
		}
	}
	id, due, err := wheel.ReadTicket(op, t)
	return Scheduled{id, due}, err
}
