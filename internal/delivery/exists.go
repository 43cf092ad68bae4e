package delivery

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// A Presence says whether a destination is there now.
type Presence int

// What Exists knows.
const (
	Unknown Presence = iota // the broker would not say
	Gone
	There
)

// Exists asks the broker for a destination: an exchange, or with "" the queue that key names.
func Exists(ctx context.Context, control *broker.Control, exchange, key string) (Presence, error) {
	const durable, autoDelete, exclusive, internal, waitForAnswer = true, false, false, false, false
	err := control.Do(ctx, func(ch *amqp091.Channel) error {
		if exchange == "" {
			_, err := ch.QueueDeclarePassive(key, durable, autoDelete, exclusive, waitForAnswer, nil)
			return err
		}
		// The broker looks at the name alone where a declaration is passive.
		return ch.ExchangeDeclarePassive(exchange, "direct", durable, autoDelete, internal, waitForAnswer, nil)
	})
	var amqpErr *amqp091.Error
	if err == nil {
		return There, nil
	}
	if errors.As(err, &amqpErr) {
		switch amqpErr.Code {
		case amqp091.ResourceLocked:
			return There, nil
		case amqp091.NotFound:
			return Gone, nil
		case amqp091.AccessRefused:
			return Unknown, nil
		}
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
