package gorabbitmq

import (
	"context"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer/retry"
)

// What a handler answered, as the error of its attempt.
var (
	errRequeue = errors.New("the handler answered NackRequeue")
	errDiscard = errors.New("the handler answered NackDiscard")
	errManual  = errors.New("the handler answered Manual, and package retry acknowledges messages")
)

// RetryHandler returns a handler for a consumer of the Retrier's queue. If handler answers Ack, the
// message is acknowledged; if NackRequeue, it is retried after the policy's interval; if
// NackDiscard, it is parked. Manual counts as a failure: RetryHandler acknowledges the message
// itself, once its retry is confirmed.
//
// The consumer's prefetch and concurrency are its own options: keep to the rule of
// [retry.Config].ConsumerTimeout. Close the consumer before ctx ends and before you close the
// Retrier. Package [retry] has a consumer of its own, for services that do not use go-rabbitmq's.
func RetryHandler(ctx context.Context, r *retry.Retrier, handler rabbitmq.Handler) rabbitmq.Handler {
	return RetryFunc(ctx, r, func(_ context.Context, d rabbitmq.Delivery) error {
		switch handler(d) {
		case rabbitmq.Ack:
			return nil
		case rabbitmq.NackRequeue:
			return errRequeue
		case rabbitmq.NackDiscard:
			return retry.Permanent(errDiscard)
		default:
			return errManual
		}
	})
}

// RetryFunc is RetryHandler for a function that returns an error. [retry.Permanent], [retry.After],
// [retry.Info] and [retry.Last] work in it as they do with [retry.Consume].
func RetryFunc(ctx context.Context, r *retry.Retrier, handler func(context.Context, rabbitmq.Delivery) error) rabbitmq.Handler {
	return func(d rabbitmq.Delivery) rabbitmq.Action {
		acknowledge := r.Do(ctx, d.Delivery, func(ctx context.Context, seen amqp091.Delivery) error {
			return handler(ctx, rabbitmq.Delivery{Delivery: seen})
		})
		if acknowledge {
			return rabbitmq.Ack
		}
		return rabbitmq.NackRequeue
	}
}
