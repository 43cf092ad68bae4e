package delayer

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Header is the name of the header that every delayed message carries to its consumer. Its value is one
// string, "<id> <due> <delay> <exchange>": an id unique to this Publish, the due time in milliseconds since
// the Unix epoch by the publisher's clock, the delay in milliseconds, and the destination exchange ("" is
// the default exchange). The broker may deliver a message twice; both copies carry the same id.
const Header = "x-delayer"

// A Delayer publishes messages that arrive later.
//
// All methods are safe for concurrent use. Any number of goroutines may share one Delayer; doing so is
// also how publishing is pipelined, since each Publish waits for its own confirm.
type Delayer interface {
	// Publish asks for msg to be routed to exchange with the routing key once delay has passed. The
	// exchange "" with a queue's name as key is that queue. A delay of 0 publishes at once, with the same
	// promises.
	//
	// It returns nil only once the broker has confirmed the message where it waits. Any other outcome is
	// an *[Error]; [SafeToRetry] tells whether publishing again could make two messages of one. If
	// ctx ends before the confirm, the error matches both the ctx's error and [ErrUnknown] when the message
	// may have been stored, and [ErrNotSent] when it was not. Publish waits for a lost connection to come
	// back as long as ctx allows; it never publishes a message twice by itself.
	//
	// msg is not modified and not kept after Publish returns. These are refused with [ErrInvalid]:
	// names and short properties above 255 bytes, header values that AMQP has no type for, properties and
	// headers that do not fit into one frame (128 KiB by default), an Expiration (it would run while the
	// message waits), and CC, BCC or routing keys in the form that Delayer reserves for itself.
	Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error

	// Limits tells what this Delayer, as opened, can do. It does not change over its lifetime.
	Limits() Limits

	// Close stops taking messages, waits up to ten seconds for the confirms of those being published,
	// and closes the connections. A Publish still unconfirmed after that returns [ErrUnknown]. Messages that wait in
	// the broker stay and are delivered. Close may be called more than once; no goroutine of the
	// Delayer is left when it returns.
	Close() error
}
