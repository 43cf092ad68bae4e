package delivery

import (
	"context"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
)

// A Presence says whether a destination exists.
type Presence int

// The answers of Exists.
const (
	Unknown Presence = iota // the broker refuses to answer
	Gone
	There
)

// Exists asks the broker for a destination: an exchange, or with "" the queue that key names. The
// error is that of broker.Explain.
func Exists(ctx context.Context, control *broker.Control, exchange, key string) (Presence, error) {
	const durable, autoDelete, internal, waitForAnswer = true, false, false, false
	var err error
	if exchange == "" {
		_, err = control.Queue(ctx, key)
	} else { // the broker compares only the name in a passive declaration
		err = control.Do(ctx, func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, "direct", durable, autoDelete, internal, waitForAnswer, nil)
		})
	}
	if err == nil {
		return There, nil
	}
	switch broker.Code(err) {
	case amqp091.ResourceLocked:
		return There, nil
	case amqp091.NotFound:
		return Gone, nil
	case amqp091.AccessRefused:
		return Unknown, nil
	}
	return Unknown, broker.Explain("look at", "", Place(exchange, key), err)
}

// Place names a destination in errors and logs.
func Place(exchange, key string) string {
	if exchange == "" {
		return fmt.Sprintf("queue %.300q", key)
	}
	return fmt.Sprintf("exchange %.300q", exchange)
}
