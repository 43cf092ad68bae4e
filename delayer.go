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
	// "", key is the name of a queue. A delay of 0 publishes at once, with the same guarantees.
	//
	// It returns nil only once the broker has confirmed the message where it waits. Any other
	// outcome is an *[Error]; [SafeToRetry] tells whether publishing again could deliver the
	// message twice. If ctx ends before the confirm, the error matches the ctx's error, and
	// [ErrUnknown] if the message may have been stored, [ErrNotSent] if it was not.
	//
	// If the connection is lost, Publish waits for it to come back as long as ctx allows. It
	// publishes a message again only if the first attempt certainly stored nothing.
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

	// Limits tells what this Delayer can do. It does not change while the Delayer is open.
	Limits() Limits

	// Close takes no more messages, waits up to ten seconds for the confirms of those being
	// published, and closes the connections. A Publish that is unconfirmed after that returns
	// [ErrUnknown]. Messages that wait in the broker stay there and are delivered.
	//
	// Close may be called more than once. No goroutine of the Delayer is left when it returns.
	Close() error
}
