// Package migrate is for services that leave the x-delayed-message plugin. Its [Publisher] has the
// shape of amqp091-go's channel, reads the x-delay header as the plugin does, and publishes through
// a Delayer. A service changes one line:
//
//	publisher := migrate.NewPublisher(d) // was: publisher, err := conn.Channel()
//	…
//	err = publisher.PublishWithContext(ctx, "orders", "order.expired", false, false, amqp091.Publishing{
//		Headers: amqp091.Table{"x-delay": 1_800_000},
//		Body:    body,
//	})
//
// Release the service first, then run `delayer migrate switch`, which makes the exchange an
// ordinary one. For services that cannot be released there is `delayer serve`. For
// wagslane/go-rabbitmq, package gorabbitmq does the same as this one.
//
// # What is the same
//
// Exchange, routing key, CC, BCC, body, headers and properties. Without the header, or if it is 0
// or negative, the message is published at once. The caller's table is not modified.
//
// # What differs
//
//   - Publishing waits for the confirm and returns every failure as an error. Nil means stored.
//   - A destination that does not exist is [delayer.ErrUnroutable], with or without mandatory. So
//     is, without a delay, an exchange that has nothing bound for the key. There is no
//     basic.return, and the channel is not closed. A delayed message that nothing is bound for when
//     it is due is dropped, as by the plugin, unless the exchange has an alternate exchange.
//   - A header that the plugin fails on, or for which it delivers at once although a delay was
//     meant, is [delayer.ErrInvalid]: more than 2^32-1 ms, a text that is no integer, a bool, a
//     date, a header that is spelt X-Delay.
//   - A fraction of a millisecond is rounded up; the plugin cuts it off.
//   - A DeliveryMode of 0 is persistent.
//   - Expiration is refused: it would run while the message waits.
//   - Consumers get no x-delay header. The plugin leaves it there, from RabbitMQ 3.13 on as a
//     negative number.
package migrate

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
)

// A Publisher publishes through a Delayer. It is safe for concurrent use.
//
// It has no PublishWithDeferredConfirm, because only amqp091-go can make the confirmation that it
// returns. Call Publish in a goroutine instead.
type Publisher struct{ delayer delayer.Delayer }

// NewPublisher returns a Publisher on d. The caller closes d.
func NewPublisher(d delayer.Delayer) *Publisher { return &Publisher{d} }

// Publish is PublishWithContext with context.Background().
func (p *Publisher) Publish(exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error {
	return p.PublishWithContext(context.Background(), exchange, key, mandatory, immediate, msg)
}

// PublishWithContext publishes msg after the delay in its x-delay header, in milliseconds, and
// returns once the broker has confirmed it. Errors are those of [delayer.Delayer].
//
// mandatory has no effect: a message that cannot be routed is always an error. immediate is
// refused: RabbitMQ removed it in 3.0, and closes the connection over it.
func (p *Publisher) PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error {
	_ = mandatory
	if immediate {
		return invalid(exchange, key, errors.New("immediate is set, which RabbitMQ does not implement"))
	}
	delay, headers, err := xdelay.Take(msg.Headers)
	if err != nil {
		return invalid(exchange, key, err)
	}
	msg.Headers = headers
	return p.delayer.Publish(ctx, exchange, key, delay, msg)
}

func invalid(exchange, key string, cause error) error {
	return &delayer.Error{
		Op: "publish", Object: fmt.Sprintf("to exchange %q with key %q", exchange, key), Kind: delayer.ErrInvalid, Cause: cause,
	}
}
