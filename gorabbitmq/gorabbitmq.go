// Package gorabbitmq adds delays and retries to services that use wagslane/go-rabbitmq.
//
// A [Publisher] has the shape of go-rabbitmq's own, and publishes through a Delayer:
//
//	publisher := gorabbitmq.NewPublisher(d)
//	err := publisher.PublishDelayed(ctx, 30*time.Minute, body, []string{"order.expired"},
//		rabbitmq.WithPublishOptionsExchange("orders"),
//		rabbitmq.WithPublishOptionsContentType("application/json"))
//
// [RetryHandler] retries the messages that a handler of go-rabbitmq rejects:
//
//	err = consumer.Run(gorabbitmq.RetryHandler(ctx, retrier, handle))
//
// Consumers stay as they are: a delayed message arrives in the queue as if it had been published at
// that moment. Declare a queue before you publish to it: a go-rabbitmq consumer declares its queue
// only when it runs.
//
// # Options
//
// The options of go-rabbitmq arrive as the properties that they are, and Headers also with tables in
// tables. Without a DeliveryMode a message is persistent, where go-rabbitmq makes it transient.
// Expiration, Mandatory and Immediate are refused, and a Priority above [delayer.Limits].MaxPriority.
// docs/reliability.md says why.
//
// # Leaving the x-delayed-message plugin
//
// Publish and PublishWithContext read the header x-delay, as the plugin does, so that a service
// changes one line. Package migrate says what differs from the plugin. In new code the delay is the
// argument of PublishDelayed.
//
// # Several routing keys
//
// The message is published once for each key, in their order. If some fail, the others are still
// published, and the error says for which keys the message is stored. If there are such keys, it
// matches [delayer.ErrUnknown], and [delayer.SafeToRetry] is false: publishing for all keys again
// would deliver the message twice for them. To know each result, publish for one key at a time.
//
// Only programs that import this package link go-rabbitmq.
package gorabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
	"github.com/delayer-go/delayer/retry"
)

// A Publisher publishes through a Delayer. It is safe for concurrent use.
//
// It has no NotifyReturn, NotifyPublish or PublishWithDeferredConfirmWithContext: each call waits
// for its own confirm and returns what became of the message.
type Publisher struct{ delayer delayer.Delayer }

// NewPublisher returns a Publisher on d. The caller closes d.
func NewPublisher(d delayer.Delayer) *Publisher { return &Publisher{d} }

// Publish is PublishWithContext with context.Background().
func (p *Publisher) Publish(data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	return p.PublishWithContext(context.Background(), data, routingKeys, options...)
}

// PublishWithContext publishes data after the delay in its x-delay header, in milliseconds, or at
// once, and returns once the broker has confirmed it. The header is removed. Errors are those of
// [delayer.Delayer]; a header that the plugin cannot read is [delayer.ErrInvalid].
func (p *Publisher) PublishWithContext(ctx context.Context, data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	exchange, msg, err := read(data, options)
	if err != nil {
		return err
	}
	delay, headers, err := xdelay.Take(msg.Headers)
	if err != nil {
		return invalid(exchange, err)
	}
	msg.Headers = headers
	return p.publish(ctx, exchange, routingKeys, delay, msg)
}

// PublishDelayed publishes data after delay, and returns once the broker has confirmed it. Errors
// are those of [delayer.Delayer]. An x-delay header above 0 is refused: there would be two delays.
func (p *Publisher) PublishDelayed(ctx context.Context, delay time.Duration, data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	exchange, msg, err := read(data, options)
	if err != nil {
		return err
	}
	if asked, err := xdelay.Of(msg.Headers); asked > 0 || err != nil {
		return invalid(exchange, fmt.Errorf("header %s is set and the delay is an argument (remove the header)", xdelay.Header))
	}
	return p.publish(ctx, exchange, routingKeys, delay, msg)
}

func (p *Publisher) publish(ctx context.Context, exchange string, keys []string, delay time.Duration, msg amqp091.Publishing) error {
	if len(keys) == 0 {
		return invalid(exchange, errors.New("there is no routing key, so nothing would be published"))
	}
	var stored []string
	var failed []error
	for _, key := range keys {
		if err := p.delayer.Publish(ctx, exchange, key, delay, msg); err != nil {
			failed = append(failed, err)
			continue
		}
		stored = append(stored, key)
	}
	switch {
	case len(keys) == 1 && len(failed) == 1:
		return failed[0]
	case len(failed) == 0 || len(stored) == 0:
		return errors.Join(failed...)
	}
	return fmt.Errorf("%w: the message is stored for %q, not for others: %w", delayer.ErrUnknown, stored, errors.Join(failed...))
}

func read(data []byte, options []func(*rabbitmq.PublishOptions)) (exchange string, msg amqp091.Publishing, err error) {
	var o rabbitmq.PublishOptions
	for _, option := range options {
		option(&o)
	}
	switch {
	case o.Mandatory:
		return "", msg, invalid(o.Exchange, errors.New("Mandatory is set, and no return would reach a handler of NotifyReturn: "+
			"leave it out, because a message that cannot be routed is always an error"))
	case o.Immediate:
		return "", msg, invalid(o.Exchange, errors.New("Immediate is set, which RabbitMQ does not implement: leave it out"))
	}
	return o.Exchange, amqp091.Publishing{
		Headers: table(o.Headers), ContentType: o.ContentType, ContentEncoding: o.ContentEncoding,
		DeliveryMode: o.DeliveryMode, Priority: o.Priority, CorrelationId: o.CorrelationID, ReplyTo: o.ReplyTo,
		Expiration: o.Expiration, MessageId: o.MessageID, Timestamp: o.Timestamp, Type: o.Type,
		UserId: o.UserID, AppId: o.AppID, Body: data,
	}, nil
}

// table copies a table. amqp091-go does not know go-rabbitmq's type within another table.
func table(t rabbitmq.Table) amqp091.Table {
	if t == nil {
		return nil
	}
	own := make(amqp091.Table, len(t))
	for name, value := range t {
		own[name] = field(value)
	}
	return own
}

func field(value any) any {
	switch v := value.(type) {
	case rabbitmq.Table:
		return table(v)
	case amqp091.Table:
		return table(rabbitmq.Table(v))
	case []any:
		own := make([]any, len(v))
		for i, item := range v {
			own[i] = field(item)
		}
		return own
	}
	return value
}

func invalid(exchange string, cause error) error {
	return &delayer.Error{
		Op: "publish", Object: fmt.Sprintf("to exchange %q", exchange), Kind: delayer.ErrInvalid, Cause: cause,
	}
}

// RetryHandler returns a handler for a consumer of the Retrier's queue. If handler answers Ack, the
// message is acknowledged; if NackRequeue, it is retried after the policy's interval; if
// NackDiscard, it is parked. Manual counts as a failure: RetryHandler acknowledges the message
// itself, once its retry is confirmed.
//
// A handler that returns an error, as for [retry.After], calls [retry.Retrier].Do in its place.
//
// The consumer's prefetch and concurrency are its own options: keep to the rule of
// [retry.Config].ConsumerTimeout. Close the consumer before ctx ends and before you close the
// Retrier. Package [retry] has a consumer of its own, for services that do not use go-rabbitmq's.
func RetryHandler(ctx context.Context, r *retry.Retrier, handler rabbitmq.Handler) rabbitmq.Handler {
	return func(d rabbitmq.Delivery) rabbitmq.Action {
		acknowledge := r.Do(ctx, d.Delivery, func(_ context.Context, seen amqp091.Delivery) error {
			switch handler(rabbitmq.Delivery{Delivery: seen}) {
			case rabbitmq.Ack:
				return nil
			case rabbitmq.NackRequeue:
				return errors.New("the handler answered NackRequeue")
			case rabbitmq.NackDiscard:
				return retry.Permanent(errors.New("the handler answered NackDiscard"))
			default:
				return errors.New("the handler answered Manual, and package retry acknowledges messages")
			}
		})
		if acknowledge {
			return rabbitmq.Ack
		}
		return rabbitmq.NackRequeue
	}
}
