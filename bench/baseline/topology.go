package baseline

import (
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
)

// topology is what a baseline declares, as data. The destination queue is not part of it.
type topology struct {
	destination string
	exchanges   []exchange
	queues      []queue
	bindings    []binding
}

type exchange struct{ name, kind string }

type queue struct {
	name string
	args amqp091.Table
}

type binding struct {
	from, key, to string
	toQueue       bool
}

// declarers is how many channels declare or delete queues side by side: a quorum queue takes the
// broker tens of milliseconds each, most of them waiting.
const declarers = 4

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

func (t topology) apply(conn *amqp091.Connection) error {
	if err := onChannel(conn, t.declareExchanges); err != nil {
		return err
	}
	err := t.eachQueue(conn, func(ch *amqp091.Channel, q queue) error {
		_, err := ch.QueueDeclare(q.name, durable, autoDelete, exclusive, wait, q.args)
		return err
	})
	if err != nil {
		return err
	}
	return onChannel(conn, t.bind)
}

func (t topology) declareExchanges(ch *amqp091.Channel) error {
	for _, e := range t.exchanges {
		if err := ch.ExchangeDeclare(e.name, e.kind, durable, autoDelete, internal, wait, nil); err != nil {
			return fmt.Errorf("exchange %s: %w", e.name, err)
		}
	}
	return nil
}

func (t topology) bind(ch *amqp091.Channel) error {
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

// remove deletes what apply declares, and goes on past an error so that as little as possible is
// left.
func (t topology) remove(conn *amqp091.Connection) error {
	queues := t.eachQueue(conn, func(ch *amqp091.Channel, q queue) error {
		_, err := ch.QueueDelete(q.name, ifUnused, ifEmpty, wait)
		return err
	})
	exchanges := onChannel(conn, func(ch *amqp091.Channel) error {
		for _, e := range t.exchanges {
			if err := ch.ExchangeDelete(e.name, ifUnused, wait); err != nil {
				return fmt.Errorf("exchange %s: %w", e.name, err)
			}
		}
		return nil
	})
	return errors.Join(queues, exchanges)
}

// eachQueue calls do for every queue, from several channels at once.
func (t topology) eachQueue(conn *amqp091.Connection, do func(*amqp091.Channel, queue) error) error {
	next := make(chan queue, len(t.queues))
	for _, q := range t.queues {
		next <- q
	}
	close(next)
	var group errgroup.Group
	for range min(declarers, len(t.queues)) {
		group.Go(func() error {
			return onChannel(conn, func(ch *amqp091.Channel) error {
				for q := range next {
					if err := do(ch, q); err != nil {
						return fmt.Errorf("queue %s: %w", q.name, err)
					}
				}
				return nil
			})
		})
	}
	return group.Wait()
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
