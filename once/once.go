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
	// Do runs f and marks id, both or neither. It returns nil without a run if id is marked. If f fails or
	// panics, id is not marked. While f runs for an id, another Do for the same id waits for its outcome.
	Do(ctx context.Context, id string, f func(ctx context.Context, with T) error) error
}

// Handler returns handle as a handler that succeeds at most once per message id. Its error is that of
// handle or of the store, or a [*NoIDError].
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

// ErrNoID is what a [*NoIDError] matches.
var ErrNoID = errors.New("the message has no id")

// A NoIDError is about a message that cannot be told from its duplicates. It comes again as it is: put it
// aside instead of requeueing it. Package retry parks it at once.
type NoIDError struct {
	Exchange, RoutingKey string
}

// Error says what to do.
func (e *NoIDError) Error() string {
	return fmt.Sprintf("once: message from exchange %q with key %q: %v (set MessageId when publishing, or publish through a Delayer)",
		e.Exchange, e.RoutingKey, ErrNoID)
}

// Unwrap returns ErrNoID.
func (e *NoIDError) Unwrap() error { return ErrNoID }

// Permanent returns true: no further attempt gives the message an id.
func (e *NoIDError) Permanent() bool { return true }

// ID returns what a delivery is known by: its MessageId, else the id in [delayer.Header]. The error is a
// [*NoIDError].
func ID(d amqp091.Delivery) (string, error) {
	if d.MessageId != "" {
		return d.MessageId, nil
	}
	if envelope, err := delayer.ParseHeader(d.Headers); err == nil {
		return delayer.Header + " " + envelope.ID, nil
	}
	return "", &NoIDError{Exchange: d.Exchange, RoutingKey: d.RoutingKey}
}
