package misrouted

import (
	"context"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// A lock is an exclusive queue: it belongs to one connection and is gone with it. There are two:
//
//	<prefix>.misrouted.lock  its owner may consume the misrouted queue
//	<prefix>.misrouted.live  its owner has settled all messages that were there when it began
//
// A process that waits for the lock checks the second one. If that is held until an outage begins,
// all messages in the queue came during or after the outage.
type lock struct {
	control control
	queue   string
}

func (l lock) name() string     { return l.queue + ".lock" }
func (l lock) liveName() string { return l.queue + ".live" }

// acquire returns true once the lock is ours, also if it was before.
func (l lock) acquire(ctx context.Context) (bool, error) { return l.hold(ctx, l.name()) }

// announce tells other processes that all messages that were there at the start are settled.
func (l lock) announce(ctx context.Context) error {
	_, err := l.hold(ctx, l.liveName())
	return err
}

// watched reports whether another process has announced.
func (l lock) watched(ctx context.Context) (bool, error) {
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclarePassive(l.liveName(), durable, autoDelete, exclusive, waitForAnswer, nil)
		return err
	})
	switch broker.Code(err) {
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
	if broker.Code(err) == amqp091.ResourceLocked {
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
