package once

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A Store remembers which ids were handled. T is what a handler works with, such as a pgx.Tx.
type Store[T any] interface {
	// Do runs f and marks id. If id is marked, it returns nil without running f. If f fails or
	// panics, id is not marked. While f runs, another Do for the same id waits for its outcome.
	Do(ctx context.Context, id string, f func(ctx context.Context, with T) error) error
}

// Handler returns a handler that runs handle until it has succeeded once for a message's id. Errors
// are those of handle and of the store, and [ErrNoID].
func Handler[T any](
	store Store[T], handle func(ctx context.Context, with T, d amqp091.Delivery) error,
) func(context.Context, amqp091.Delivery) error {
	return func(ctx context.Context, d amqp091.Delivery) error {
		id, err := ID(d)
		if err != nil {
			return err
		}
		return store.Do(ctx, id, func(ctx context.Context, with T) error { return handle(ctx, with, d) })
	}
}

// ErrNoID means that a message cannot be told from its duplicates. Put such a message aside: it
// would come again without an id. Package retry parks it at once.
var ErrNoID = errors.New("the message has no id")

// noID is an ErrNoID with the message's address.
type noID struct{ exchange, key string }

func (e *noID) Error() string {
	return fmt.Sprintf("once: message from exchange %q with key %q: %v (set MessageId when publishing, or publish through a Delayer)",
		e.exchange, e.key, ErrNoID)
}

func (e *noID) Unwrap() error { return ErrNoID }

func (e *noID) Permanent() bool { return true }

// ID returns the id of a delivery: its MessageId, or else the id in [delayer.Header]. The error is
// [ErrNoID].
func ID(d amqp091.Delivery) (string, error) {
	if d.MessageId != "" {
		return d.MessageId, nil
	}
	if envelope, err := delayer.ParseHeader(d.Headers); err == nil {
		return delayer.Header + " " + envelope.ID, nil
	}
	return "", &noID{d.Exchange, d.RoutingKey}
}
