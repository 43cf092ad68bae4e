package baseline

import (
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// topology is what a baseline declares, as data. The destination queue is not part of it.
type topology struct {
	exchanges []exchange
	queues    []queue
	bindings  []binding
}

type exchange struct {
	name, kind string
	args       amqp091.Table
}

type queue struct {
	name string
	args amqp091.Table
}

type binding struct {
	from, key, to string
	toQueue       bool
}

// The flags of a declaration, by name.
const (
	durable, autoDelete, exclusive, internal, wait = true, false, false, false, false
	ifUnused, ifEmpty                              = false, false
)

// waitingArgs are the arguments of a queue in which messages wait, ttl long if that is not 0,
// before they go to the exchange next.
func waitingArgs(queueType, next string, ttl time.Duration) amqp091.Table {
	args := amqp091.Table{"x-queue-type": queueType, "x-dead-letter-exchange": next}
	if ttl > 0 {
		args["x-message-ttl"] = ttl.Milliseconds()
	}
	if queueType == "quorum" {
		// At-least-once is silently off without reject-publish.
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return args
}

func (t topology) declare(ch *amqp091.Channel) error {
	for _, e := range t.exchanges {
		if err := ch.ExchangeDeclare(e.name, e.kind, durable, autoDelete, internal, wait, e.args); err != nil {
			return fmt.Errorf("exchange %s: %w", e.name, err)
		}
	}
	for _, q := range t.queues {
		if _, err := ch.QueueDeclare(q.name, durable, autoDelete, exclusive, wait, q.args); err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
	}
	for _, b := range t.bindings {
		bind := ch.ExchangeBind
		if b.toQueue {
			bind = ch.QueueBind
		}
		if err := bind(b.to, b.key, b.from, wait, nil); err != nil {
			return fmt.Errorf("binding %s to %s: %w", b.from, b.to, err)
		}
	}
	return nil
}

// remove deletes what declare declares. What does not exist is no error.
func (t topology) remove(ch *amqp091.Channel) error {
	for _, q := range t.queues {
		if _, err := ch.QueueDelete(q.name, ifUnused, ifEmpty, wait); err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
	}
	for _, e := range t.exchanges {
		if err := ch.ExchangeDelete(e.name, ifUnused, wait); err != nil {
			return fmt.Errorf("exchange %s: %w", e.name, err)
		}
	}
	return nil
}

// onChannel gives do a channel of its own: an error there closes that channel alone.
func onChannel(conn *amqp091.Connection, do func(*amqp091.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return do(ch)
}
