package gorabbitmq

import (
	"context"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer/retry"
)

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
