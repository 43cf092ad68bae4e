package misrouted

import (
	"context"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A lock is an exclusive queue: it belongs to one connection and is gone with it. There are two:
//
//	<prefix>.misrouted.lock  its owner may consume the misrouted queue
//	<prefix>.misrouted.live  its owner has dealt with all that was there when it began
//
// Who waits for the lock looks at the second one: where it is held until the moment of an outage, everything in the
// queue came after that.
type lock struct {
	control control
	queue   string
}

func (l lock) name() string     { return l.queue + ".lock" }
func (l lock) liveName() string { return l.queue + ".live" }

// acquire returns true once the lock is ours, also if it was before.
func (l lock) acquire(ctx context.Context) (bool, error) { return l.hold(ctx, l.name()) }

// announce says that everything that was there at the start is dealt with.
func (l lock) announce(ctx context.Context) error {
	_, err := l.hold(ctx, l.liveName())
	return err
}

// watched says that another process is at work, and has dealt with everything that was there when it began.
func (l lock) watched(ctx context.Context) (bool, error) {
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclarePassive(l.liveName(), durable, autoDelete, exclusive, waitForAnswer, nil)
		return err
	})
	switch code(err) {
	case amqp091.ResourceLocked:
		return true, nil
	case amqp091.NotFound:
		return false, nil
	}
	return false, err
}

func (l lock) hold(ctx context.Context, name string) (bool, error) {
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(name, !durable, autoDelete, exclusive, waitForAnswer, amqp091.Table{"x-queue-type": "classic"})
		return err
	})
	if code(err) == amqp091.ResourceLocked {
		return false, nil
	}
	return err == nil, err
}

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = false
	exclusive     = true
	waitForAnswer = false
)

// code is the reply code of the broker, or 0.
func code(err error) int {
	var amqpErr *amqp091.Error
	if errors.As(err, &amqpErr) {
		return amqpErr.Code
	}
	return 0
}
