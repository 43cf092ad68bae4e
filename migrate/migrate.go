// Package migrate is for services that leave the x-delayed-message plugin. [Wrap] gives a Delayer
// the shape of amqp091-go's channel, and reads the x-delay header that the plugin reads. A service
// goes on calling PublishWithContext:
//
//	publisher := migrate.Wrap(d) // was: publisher, err := conn.Channel()
//	…
//	err = publisher.PublishWithContext(ctx, "orders", "order.expired", false, false, amqp091.Publishing{
//		Headers: amqp091.Table{"x-delay": 1_800_000},
//		Body:    body,
//	})
//
// The exchange must be an ordinary one by then, no longer of the type x-delayed-message: release
// this first, then `delayer migrate switch`. The command `delayer migrate bridge` is for services
// that cannot be released. Package migrate/gorabbitmq is Wrap for wagslane/go-rabbitmq.
//
// # What is the same
//
// Exchange, routing key, CC, BCC, body, headers and properties. A header of 0 or below, or none,
// publishes at once. The table that the caller passes is not modified.
//
// # What differs
//
//   - Publishing waits for the confirm and returns every failure as an error. Nil means stored.
//   - A destination that does not exist is [delayer.ErrUnroutable], whether mandatory is set or not;
//     without a delay so is an exchange with nothing bound for the key. No basic.return comes, and
//     the channel is not closed. What nothing is bound for when it is due is dropped, as the plugin
//     does, unless the exchange has an alternate exchange.
//   - What the plugin cannot read, or delivers at once although it asks for a delay, is
//     [delayer.ErrInvalid]: a delay above 2^32-1 ms, a text that is no integer, a bool, a date, a
//     header that is spelt X-Delay.
//   - A fraction of a millisecond is rounded up; the plugin cuts it off.
//   - A DeliveryMode of 0 is persistent.
//   - Expiration is refused: it would run while the message waits.
//   - Consumers get no x-delay header. The plugin leaves one there, from RabbitMQ 4.0 on with its
//     sign turned.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/xdelay"
)

// A Publisher publishes as an amqp091.Channel does, through a Delayer. It is safe for concurrent
// use.
//
// It has no PublishWithDeferredConfirm: nobody but amqp091-go can make the confirmation that it
// returns, and one that is resolved before the caller looks at it would hide the error. Publish in
// a goroutine of its own instead: each call waits for its own confirm.
type Publisher struct{ delayer delayer.Delayer }

// Wrap returns a Publisher on d. The caller closes d.
func Wrap(d delayer.Delayer) *Publisher { return &Publisher{d} }

// Publish is PublishWithContext without an end of its own: it waits as long as the Delayer does.
func (p *Publisher) Publish(exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error {
	return p.PublishWithContext(context.Background(), exchange, key, mandatory, immediate, msg)
}

// PublishWithContext publishes msg after the delay in its x-delay header, in milliseconds, and
// returns once the broker has confirmed it. Its errors are those of [delayer.Delayer].
//
// mandatory changes nothing: a message that cannot be routed is an error in any case. immediate is
// refused: RabbitMQ has not known it since 3.0, and closes the connection over it.
func (p *Publisher) PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error {
	_ = mandatory
	if immediate {
		return invalid(exchange, key, errors.New("immediate is set, which RabbitMQ does not implement"))
	}
	delay, headers, err := take(msg.Headers)
	if err != nil {
		return invalid(exchange, key, err)
	}
	msg.Headers = headers
	return p.delayer.Publish(ctx, exchange, key, delay, msg)
}

// take returns the delay that headers ask for, and a copy of them without it.
func take(headers amqp091.Table) (time.Duration, amqp091.Table, error) {
	if name := xdelay.Misspelt(headers); name != "" {
		return 0, nil, fmt.Errorf("header %q: the plugin reads %q only, and delivers such a message at once (rename the header)", name, xdelay.Header)
	}
	delay, err := xdelay.Of(headers)
	if _, ok := headers[xdelay.Header]; !ok || err != nil {
		return 0, headers, err
	}
	headers = maps.Clone(headers)
	delete(headers, xdelay.Header)
	return delay, headers, nil
}

func invalid(exchange, key string, cause error) error {
	return &delayer.Error{
		Op: "publish", Object: fmt.Sprintf("to exchange %q with key %q", exchange, key), Kind: delayer.ErrInvalid, Cause: cause,
	}
}
