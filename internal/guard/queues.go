package guard

import (
	"context"
	"crypto/rand"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// queues are the probe queues and the return queue of one Delayer. They are exclusive to its
// control connection, and deleted with it.
type queues struct {
	prefix, id string
	control    *broker.Control
	from       consumer
}

// A consumer has its own return queue and its own channel. So a consumer that nobody owns any more
// takes nothing from another.
type consumer struct {
	ch    *amqp091.Channel
	queue string
	probe <-chan amqp091.Delivery // nil once the broker has ended it
}

func newQueues(prefix string, control *broker.Control) *queues {
	return &queues{prefix: prefix, id: watchName(prefix) + "." + rand.Text(), control: control}
}

// open implements [wire]. It declares everything each time: an exchange that was deleted and
// declared again has lost its bindings.
func (q *queues) open(ctx context.Context) (anew bool, err error) {
	from := q.from
	opened := newHandover(consumer.close)
	err = q.control.Do(ctx, func(ch *amqp091.Channel) error {
		if err := q.declare(ch); err != nil {
			return err
		}
		if from.alive() {
			return ch.QueueBind(from.queue, from.queue, returnExchange(q.prefix), waitForAnswer, nil)
		}
		from.close()
		c, err := q.consume(ctx)
		if err == nil {
			opened.give(c)
		}
		return err
	})
	if c, ok := opened.take(); ok { // also if ctx has ended
		q.from = c
		return true, nil
	}
	return false, err
}

// Arguments of amqp091-go.
const (
	waitForAnswer = false
	durable       = true
	autoDelete    = true
	exclusive     = true
)

// declare declares the probe queues. In each, a new probe replaces the last one.
func (q *queues) declare(ch *amqp091.Channel) error {
	for n := range probeQueues {
		_, err := ch.QueueDeclare(q.name(n), !durable, !autoDelete, exclusive, waitForAnswer, amqp091.Table{
			"x-queue-type": "classic", "x-message-ttl": probeTTL.Milliseconds(),
			"x-dead-letter-exchange": returnExchange(q.prefix),
			"x-max-length":           int64(1), "x-overflow": "drop-head",
		})
		if err != nil {
			return err
		}
		if err := ch.QueueBind(q.name(n), q.name(n), watchName(q.prefix), waitForAnswer, nil); err != nil {
			return err
		}
	}
	return nil
}

// consume declares a return queue, which the broker deletes with its consumer.
func (q *queues) consume(ctx context.Context) (c consumer, err error) {
	if c.ch, err = q.control.Conn().Channel(ctx); err != nil {
		return c, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	c.queue = q.id + ".back." + rand.Text()
	_, err = c.ch.QueueDeclare(c.queue, !durable, autoDelete, exclusive, waitForAnswer, amqp091.Table{"x-queue-type": "classic"})
	if err != nil {
		return c, err
	}
	if err = c.ch.QueueBind(c.queue, c.queue, returnExchange(q.prefix), waitForAnswer, nil); err != nil {
		return c, err
	}
	const anyTag, autoAck, noLocal = "", true, false
	c.probe, err = c.ch.Consume(c.queue, anyTag, autoAck, exclusive, noLocal, waitForAnswer, nil)
	return c, err
}

func (c consumer) alive() bool { return c.probe != nil && !c.ch.IsClosed() }

func (c consumer) close() {
	if c.ch != nil {
		_ = c.ch.Close() // fails only if it is closed already
	}
}

// returned implements [wire].
func (q *queues) returned() <-chan amqp091.Delivery { return q.from.probe }

// ended implements [wire].
func (q *queues) ended() { q.from.probe = nil }

// name implements [wire].
func (q *queues) name(n int) string { return fmt.Sprintf("%s.%d", q.id, n) }

// returnKey implements [wire].
func (q *queues) returnKey() string { return q.from.queue }

// holds implements [wire].
func (q *queues) holds(ctx context.Context, n int) (bool, error) {
	messages := make(chan int, 1)
	err := q.control.Do(ctx, func(ch *amqp091.Channel) error {
		state, err := ch.QueueDeclarePassive(q.name(n), !durable, !autoDelete, exclusive, waitForAnswer, nil)
		if err == nil {
			messages <- state.Messages
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return <-messages > 0, nil
}
