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
	back       broker.Returns
}

func newQueues(prefix string, control *broker.Control) *queues {
	id := watchName(prefix) + "." + rand.Text()
	return &queues{prefix: prefix, id: id, control: control, back: broker.Returns{
		Control: control, Name: id + ".back", Exchange: returnExchange(prefix),
	}}
}

// open implements [wire].
func (q *queues) open(ctx context.Context) (anew bool, err error) { return q.back.Open(ctx, q.declare) }

// Arguments of amqp091-go.
const (
	waitForAnswer = false
	durable       = true
	autoDelete    = false
	exclusive     = true
)

// declare declares the probe queues. In each, a new probe replaces the last one.
func (q *queues) declare(ch *amqp091.Channel) error {
	for n := range probeQueues {
		_, err := ch.QueueDeclare(q.name(n), !durable, autoDelete, exclusive, waitForAnswer, amqp091.Table{
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

// returned implements [wire].
func (q *queues) returned() <-chan amqp091.Delivery { return q.back.Probes() }

// ended implements [wire].
func (q *queues) ended() { q.back.Ended() }

// name implements [wire].
func (q *queues) name(n int) string { return fmt.Sprintf("%s.%d", q.id, n) }

// returnKey implements [wire].
func (q *queues) returnKey() string { return q.back.Queue() }

// holds implements [wire].
func (q *queues) holds(ctx context.Context, n int) (bool, error) {
	messages := make(chan int, 1)
	err := q.control.Do(ctx, func(ch *amqp091.Channel) error {
		state, err := ch.QueueDeclarePassive(q.name(n), !durable, autoDelete, exclusive, waitForAnswer, nil)
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
