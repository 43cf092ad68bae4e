package retry

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true
	exclusive     = true
	waitForAnswer = false
)

// prepare checks that the queue exists, and declares the queue for parked messages.
func (r *Retrier) prepare(ctx context.Context) error {
	_, err := r.control.Queue(ctx, r.cfg.Queue)
	if notFound(err) {
		return &delayer.Error{
			Op: "consume", Object: fmt.Sprintf("queue %q", r.cfg.Queue), Kind: delayer.ErrUnroutable,
			Cause: errors.New("there is no such queue"), Hint: "declare it first",
		}
	}
	if err != nil {
		return broker.Explain("consume", "", fmt.Sprintf("queue %q", r.cfg.Queue), err)
	}
	return r.declareParked(ctx)
}

// declareParked declares the queue for parked messages, unless it exists with whatever arguments.
func (r *Retrier) declareParked(ctx context.Context) error {
	_, err := r.control.Queue(ctx, r.cfg.Parked)
	if notFound(err) {
		err = r.control.Do(ctx, func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclare(r.cfg.Parked, durable, !autoDelete, !exclusive, waitForAnswer, amqp091.Table{
				"x-queue-type":     "quorum",
				"x-delivery-limit": objects.NeverGivenUp,
				"x-overflow":       "reject-publish", // if a policy sets a max-length, keep the oldest messages
			})
			return err
		})
	}
	return broker.Explain("declare", "", fmt.Sprintf("queue %q", r.cfg.Parked), err)
}

func notFound(err error) bool {
	return broker.Code(err) == amqp091.NotFound
}
