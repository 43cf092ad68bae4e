// Package gorabbitmq gives the handlers of wagslane/go-rabbitmq retries with growing delays:
//
//	r, err := retry.Open(ctx, retry.Config{Delayer: d, URL: url, Queue: "orders", Policy: policy})
//	…
//	defer r.Close()
//	consumer, err := rabbitmq.NewConsumer(conn, "orders", rabbitmq.WithConsumerOptionsQueueNoDeclare)
//	…
//	err = consumer.Run(gorabbitmq.Handler(ctx, r, handle))
//
// Close the consumer before ctx ends and the Retrier is closed.
//
// Package [retry] has a consumer loop of its own. This package is for services that use go-rabbitmq
// already; nobody else links that library.
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

// Handler returns a handler for a consumer of the Retrier's queue. Of what handler answers, Ack
// acknowledges the message, NackRequeue retries it after the policy's interval, and NackDiscard parks
// it. Manual is a failure, because a message is acknowledged once its retry is confirmed.
func Handler(ctx context.Context, r *retry.Retrier, handler rabbitmq.Handler) rabbitmq.Handler {
	return Func(ctx, r, func(_ context.Context, d rabbitmq.Delivery) error {
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

// Func is Handler for a function that returns an error: [retry.Permanent], [retry.After] and
// [retry.Info] work there as they do with [retry.Consume].
func Func(ctx context.Context, r *retry.Retrier, handler func(context.Context, rabbitmq.Delivery) error) rabbitmq.Handler {
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
