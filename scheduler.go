package delayer

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Ticket names a scheduled message, for Cancel and Reschedule. It is a text of at most 120 letters,
// digits and "-", "_", ".", which may be stored, and used by any process with the same prefix on the
// same broker.
//
// A checksum guards it against damage, not against forgery: who may publish to the exchanges of the
// prefix may cancel what waits there, with or without a ticket.
type Ticket string

// A Scheduler is a [Delayer] whose messages can be cancelled and rescheduled while they wait. Of the
// backends of this module the controller is one, with its wheel "slots":
//
//	s, ok := d.(delayer.Scheduler)
//
// [Limits].CancelBefore is positive where this holds. All methods are safe for concurrent use.
type Scheduler interface {
	// Schedule is Publish for a message that may be cancelled or rescheduled later. Its errors are
	// those of Publish. With [ErrUnknown] it returns the ticket too: the message may be stored, and
	// Cancel prevents its delivery.
	Schedule(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) (Ticket, error)

	// Cancel returns nil once it is certain that the message is not delivered: not when a broker or
	// a controller crashes, nor by a process that stood still meanwhile. A controller must run within
	// seven days; docs/cancelling.md has the other limits.
	//
	// To cancel twice is no error. Who has rescheduled the message must use the newest ticket: an
	// older one cancels the message as well, but does not know whether it was delivered at an earlier
	// time.
	//
	// Errors: ErrTicket; ErrTooLate up to [Limits].CancelBefore before the message is due, and from
	// then on; ErrUnknown means that it may be cancelled. After ErrUnknown and ErrNotSent the same
	// call may be made again.
	Cancel(ctx context.Context, t Ticket) error

	// Reschedule makes the message due once delay has passed from now, instead of when t says, and
	// returns the ticket to be used from then on. It needs no body: a controller moves the message.
	// An earlier time costs more than a later one: a controller has to search the queue in which the
	// message waits, and reads and writes all that waits there for about the same time.
	//
	// If several calls use the same ticket, the latest due time counts. A Cancel counts more than any
	// Reschedule. Errors are those of Cancel, and ErrOutOfRange.
	Reschedule(ctx context.Context, t Ticket, delay time.Duration) (Ticket, error)
}
