package delayer

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Delayer publishes messages that arrive later.
//
// All methods are safe for concurrent use. Any number of goroutines may share one Delayer. Each
// Publish waits for its own confirm, so many goroutines are also how to publish fast.
type Delayer interface {
	// Publish routes msg to exchange with the routing key once delay has passed. With the exchange
	// "", key is the name of a queue. A delay of 0 publishes at once, with the same guarantees. For a
	// message that is to arrive at a time, or at once if that has passed, it is
	// max(0, time.Until(at)).
	//
	// It returns nil only once the broker has confirmed the message where it waits. Any other
	// outcome is an *[Error]; [SafeToRetry] tells whether publishing again could deliver the
	// message twice. If ctx ends before the confirm, the error matches the ctx's error, and
	// [ErrUnknown] if the message may have been stored, [ErrNotSent] if it was not.
	//
	// If the connection is lost, Publish waits for it to come back as long as ctx allows. It
	// publishes a message again only if the first attempt certainly stored nothing.
	//
	// A destination that does not exist is [ErrUnroutable]. That it was deleted, or declared again, may
	// be noticed a tenth of a second late. A message whose destination is gone when it is due is kept
	// in the queue for unroutable messages, where it blocks no other.
	//
	// msg is not modified, and not read any more once Publish has returned. These are refused with
	// [ErrInvalid]:
	//
	//   - names and short properties above 255 bytes;
	//   - header values that AMQP or RabbitMQ cannot represent, such as NaN;
	//   - properties and headers that do not fit into one frame (128 KiB by default), counting what
	//     the broker adds while the message waits;
	//   - an Expiration, which would run while the message waits;
	//   - CC, BCC or routing keys that begin with "~d", which Delayer reserves for itself.
	Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error

	// PublishBatch publishes messages and returns one result for each, at its index: what Publish
	// would return, so nil only after the broker's confirm. A message that fails does not stop
	// those behind it. If ctx ends, the results say which messages may be stored ([ErrUnknown]) and
	// which are not ([ErrNotSent]).
	//
	// From one goroutine this is many times faster than Publish: up to some hundred messages are
	// unconfirmed at a time, on one connection. The delay of a message begins when it is sent. The
	// order is that of one goroutine that calls Publish for each (see [Limits].Ordered). Messages
	// without a delay wait for none to another destination. A message with an ID or a Due is refused
	// with [ErrInvalid].
	//
	// messages is not modified, and not read any more once PublishBatch has returned.
	PublishBatch(ctx context.Context, messages []Message) []error

	// Schedule is Publish for a message that can be cancelled or postponed until it is due, by the
	// ticket that Schedule returns. m.ID and m.Due are for this call alone: [Message] describes
	// them.
	//
	// Of several Schedules with the same ID and due time one message is delivered, also if they
	// come from different processes; all return nil and the same ticket. So a Schedule with both
	// that ended with [ErrUnknown] is simply called again. docs/reliability.md lists the cases in
	// which a second copy can still arrive.
	//
	// A message that is due within [Limits].CancelBefore, or whose Due has passed, is accepted, and
	// delivered when it is due, or at once. Its ticket is valid and too late for Cancel and
	// Postpone.
	//
	// Errors are those of Publish. [ErrInvalid] also means that the ID is too long, that Due is not
	// between 1970 and 2499, or that Delay and Due are both set. [ErrOutOfRange] also means that
	// Due is more than [Limits].Max away. With [ErrUnknown] Schedule returns the ticket too: the
	// message may be stored, and Cancel prevents its delivery.
	//
	// Of the backends of this module, controller with its default wheel has tickets. With others
	// Schedule, Ticket, Cancel and Postpone send nothing: see [Limits].CancelBefore.
	Schedule(ctx context.Context, m Message) (Ticket, error)

	// Ticket returns the ticket of the message that was, or will be, scheduled with this ID and due
	// time. It sends nothing, and does not know whether there is such a message. Every Delayer with
	// the same prefix on the same virtual host returns the same ticket: nothing has to be stored to
	// cancel the reminder of order 17 but when it is due.
	//
	// id and due are those of [Message]: an id of 1 to 40 bytes, and a time from 1970 to 2499,
	// rounded up to a millisecond. Anything else is ErrInvalid. A time that has passed is no error:
	// Cancel and Postpone return ErrTooLate for its ticket.
	Ticket(id string, due time.Time) (Ticket, error)

	// Cancel returns nil once it is certain that the message is not delivered: not when a broker or
	// a controller crashes, nor by a process that stood still meanwhile. docs/reliability.md has the
	// limits.
	//
	// Cancelling twice is no error. After Postpone, use the new ticket. An older one cancels the
	// message too, as long as it is not too late by that ticket's own time.
	//
	// Errors: ErrTicket; ErrTooLate from [Limits].CancelBefore before the time that t says;
	// ErrUnknown means that it may be cancelled. After ErrUnknown and ErrNotSent the same call may
	// be made again.
	//
	// An ID and due time that were cancelled stay so: a Schedule with both again returns nil, and
	// its message may not be delivered. Choose another due time, by a millisecond, or another ID.
	Cancel(ctx context.Context, t Ticket) error

	// Postpone makes the message due later: once delay has passed from now, instead of when t says.
	// It returns the ticket to be used from then on. The body is not sent again. A message may be
	// postponed a thousand times and more, as a debounce does.
	//
	// A time before the one that t says is refused with ErrOutOfRange, and nothing is written: to
	// make a message earlier, Cancel it, and Schedule it anew. The same time is no error. The same
	// is what differs by less than [Limits].Resolution, or than the backend can tell the time.
	//
	// An older ticket knows only its own time: shortly before that it is too late for Cancel and
	// Postpone, however much later the message is due. If several calls use the same ticket, the
	// message is due at the latest of their times, and each of the tickets that they return can
	// cancel it. A Cancel counts more than any Postpone: to postpone a cancelled message returns
	// nil, and the message stays cancelled.
	//
	// Errors are those of Cancel, and ErrOutOfRange. With an error there is no new ticket.
	Postpone(ctx context.Context, t Ticket, delay time.Duration) (Ticket, error)

	// Limits tells what this Delayer can do. It does not change while the Delayer is open.
	Limits() Limits

	// Close takes no more messages, waits up to ten seconds for the confirms of those being
	// published, and closes the connections. A Publish that is unconfirmed after that returns
	// [ErrUnknown]. Messages that wait in the broker stay there and are delivered.
	//
	// Close may be called more than once. No goroutine of the Delayer is left when it returns.
	Close() error
}

// A Message is what PublishBatch and Schedule of a [Delayer] publish.
type Message struct {
	Exchange, Key string
	Delay         time.Duration
	Publishing    amqp091.Publishing

	// ID names the message in Schedule: 1 to 40 bytes of any kind. With the due time it is the
	// message's identity within the prefix, whatever its destination: let it say what the message
	// is for, such as "remind/order-17". Default: a new one, which nobody can guess. Consumers find
	// it in [Envelope].ID. It is not the MessageId of Publishing.
	//
	// With a Delay the due time is the broker's time of the call plus Delay. It differs from call
	// to call, and two calls with the same ID are two messages. Set Due to make them one.
	ID string

	// Due is when a message of Schedule is due, by the broker's clock, instead of Delay. It is
	// rounded up to a millisecond. If it has passed, the message is delivered at once. Default:
	// none, and Delay counts.
	Due time.Time
}

// A Ticket names a scheduled message, for Cancel and Postpone. It is a text of at most 120 letters,
// digits and "-", "_", ".", which may be stored, and used by any process with the same prefix on
// the same broker.
//
// A checksum guards it against damage, not against forgery: who may publish to the exchanges of the
// prefix may cancel what waits there, with or without a ticket.
type Ticket string
