package delivery

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A lock is an exclusive queue: it belongs to one connection and is gone with it. There are two:
//
//	<prefix>.misrouted.lock  its owner may consume the misrouted queue
//	<prefix>.misrouted.live  its owner has settled all messages that were there when it began
//
// A process that waits for the lock asks for the second one. If that is held until an outage
// begins, all messages in the queue came during or after the outage. To declare a queue that
// another connection owns is a channel error, and a line in the broker's log. So the second one is
// bound to an exchange, and a message that is returned from there says that it is gone.
type lock struct {
	control   control
	publisher publisher
	queue     string // and the exchange of that name
}

// liveKey leads to the second queue.
const liveKey = "live"

func (l lock) name() string     { return l.queue + ".lock" }
func (l lock) liveName() string { return l.queue + ".live" }

// acquire returns true once the lock is ours, also if it was before.
func (l lock) acquire(ctx context.Context) (bool, error) { return l.hold(ctx, l.name()) }

// release gives the lock to another process.
func (l lock) release(ctx context.Context) error {
	return l.control.Do(ctx, func(ch *amqp091.Channel) error {
		const ifUnused, ifEmpty = false, false
		_, err := ch.QueueDelete(l.name(), ifUnused, ifEmpty, waitForAnswer)
		return err
	})
}

// announce tells other processes that all messages that were there at the start are settled.
func (l lock) announce(ctx context.Context) error {
	ours, err := l.hold(ctx, l.liveName())
	if err != nil || !ours {
		return err
	}
	return l.control.Do(ctx, func(ch *amqp091.Channel) error {
		return ch.QueueBind(l.liveName(), liveKey, l.queue, waitForAnswer, nil)
	})
}

// watched reports whether another process has announced.
func (l lock) watched(ctx context.Context) (bool, error) {
	question := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient}, message.NewEnvelope(time.Now(), 0, ""), nil)
	ctx, cancel := broker.Attempt(ctx, len(question.Body))
	defer cancel()
	err := l.publisher.Publish(ctx, broker.Publishing{Exchange: l.queue, Key: liveKey, Message: question})
	if returned(err) {
		return false, nil
	}
	return err == nil, err
}

func (l lock) hold(ctx context.Context, name string) (bool, error) {
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(name, !durable, autoDelete, exclusive, waitForAnswer, amqp091.Table{
			"x-queue-type": "classic", "x-max-length": int64(1), // what is asked is not read
		})
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
