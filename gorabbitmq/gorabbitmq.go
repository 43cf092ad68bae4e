// Package gorabbitmq is a publisher in the shape of wagslane/go-rabbitmq whose messages may arrive
// later:
//
//	publisher := gorabbitmq.NewPublisher(d)
//	err := publisher.PublishDelayed(ctx, 30*time.Minute, body, []string{"order.expired"},
//		rabbitmq.WithPublishOptionsExchange("orders"),
//		rabbitmq.WithPublishOptionsContentType("application/json"))
//
// Consumers stay as they are: a delayed message arrives in the queue as if it had been published at
// that moment. examples/gorabbitmq publishes and consumes one. A queue must exist before a message
// is published to it, and a go-rabbitmq consumer declares its own only when it runs.
//
// Package retry/gorabbitmq gives handlers retries with growing delays. Package migrate/gorabbitmq is
// for services that set the x-delay header of the x-delayed-message plugin.
//
// # Options
//
// What becomes of each field of go-rabbitmq's PublishOptions:
//
//   - Exchange is the destination. Without it the routing keys are names of queues.
//   - ContentType, ContentEncoding, CorrelationID, ReplyTo, MessageID, Timestamp, Type, UserID and
//     AppID arrive as they are.
//   - Headers too. Tables may be nested, of go-rabbitmq's type or of amqp091's. An x-delay above 0 is
//     refused, because no plugin would read it: use PublishDelayed.
//   - Priority: up to [delayer.Limits].MaxPriority.
//   - DeliveryMode: without one a message is persistent. go-rabbitmq makes it transient.
//   - Expiration is refused by the Delayer: it would run while the message waits.
//   - Mandatory is refused: there is no NotifyReturn that would get the message. What cannot be
//     routed is an error without it, [delayer.ErrUnroutable].
//   - Immediate is refused: RabbitMQ does not implement it.
//
// The delay is an argument of PublishDelayed and no option, because PublishOptions has no field for
// it: in its headers it would be lost to the next option that sets them.
//
// # Several routing keys
//
// The message is published once for each key, in their order. If some fail, the others are still
// published, and the error is a [*KeysError], which says for which keys the message is stored.
// There must be a key. With the exchange "" the keys are names of queues.
//
// Nobody links go-rabbitmq who does not import this package.
package gorabbitmq

import (
	"context"
	"fmt"
	"time"

	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/publishoptions"
	"github.com/delayer-go/delayer/internal/xdelay"
)

// A KeysError is the error of a message for several routing keys. Each of its errors names its key.
type KeysError = publishoptions.KeysError

// A Publisher publishes through a Delayer. It is safe for concurrent use.
//
// It has no NotifyReturn, NotifyPublish or PublishWithDeferredConfirmWithContext: each call waits
// for its own confirm and returns what became of the message.
type Publisher struct{ delayer delayer.Delayer }

// NewPublisher returns a Publisher on d. The caller closes d.
func NewPublisher(d delayer.Delayer) *Publisher { return &Publisher{d} }

// Publish is PublishWithContext without an end of its own: it waits as long as the Delayer does.
func (p *Publisher) Publish(data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	return p.PublishWithContext(context.Background(), data, routingKeys, options...)
}

// PublishWithContext publishes at once and returns once the broker has confirmed the message. Its
// errors are those of [delayer.Delayer].
func (p *Publisher) PublishWithContext(ctx context.Context, data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	return p.PublishDelayed(ctx, 0, data, routingKeys, options...)
}

// PublishDelayed is PublishWithContext for a message that arrives once delay has passed.
func (p *Publisher) PublishDelayed(ctx context.Context, delay time.Duration, data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	exchange, msg, err := publishoptions.Read(data, options)
	if err != nil {
		return err
	}
	if asked, err := xdelay.Of(msg.Headers); asked > 0 || err != nil {
		return publishoptions.Invalid(exchange, fmt.Errorf("header %s is set, which only the plugin reads: "+
			"use PublishDelayed without it, or package migrate/gorabbitmq", xdelay.Header))
	}
	return publishoptions.Each(exchange, routingKeys, func(key string) error {
		return p.delayer.Publish(ctx, exchange, key, delay, msg)
	})
}
