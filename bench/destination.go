package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/bench/internal/dial"
)

// A destination is the queue that messages are delayed to, and its only consumer, on a connection of its
// own so that publishing and consuming do not slow each other down.
type destination struct {
	queue string
	conn  *amqp091.Connection
	ch    *amqp091.Channel
	done  chan struct{}
}

// closeTimeout bounds the goodbye to a broker that may be gone.
const closeTimeout = 5 * time.Second

func openDestination(ctx context.Context, url, queue string, arrival func(id string)) (*destination, error) {
	conn, err := dial.Open(ctx, url, queue)
	if err != nil {
		return nil, err
	}
	d := &destination{queue: queue, conn: conn, done: make(chan struct{})}
	deliveries, err := d.consume()
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("destination queue %s: %w", queue, err)
	}
	go func() {
		defer close(d.done)
		for delivery := range deliveries {
			arrival(delivery.MessageId)
		}
	}()
	return d, nil
}

func (d *destination) consume() (<-chan amqp091.Delivery, error) {
	const durable, autoDelete, autoAck, exclusive, noLocal, noWait = true, false, true, false, false, false
	ch, err := d.conn.Channel()
	if err != nil {
		return nil, err
	}
	d.ch = ch
	// An explicit type: a virtual host may have another as its default.
	args := amqp091.Table{"x-queue-type": "classic"}
	if _, err := ch.QueueDeclare(d.queue, durable, autoDelete, exclusive, noWait, args); err != nil {
		return nil, err
	}
	return ch.Consume(d.queue, "", autoAck, exclusive, noLocal, noWait, nil)
}

// lost says that the consumer is gone, and what is missing may only not have been seen.
func (d *destination) lost() bool { return d.ch.IsClosed() }

// remove deletes the queue and closes the connection.
func (d *destination) remove() error {
	const ifUnused, ifEmpty, noWait = false, false, false
	_, deleted := d.ch.QueueDelete(d.queue, ifUnused, ifEmpty, noWait)
	closed := d.conn.CloseDeadline(time.Now().Add(closeTimeout))
	<-d.done
	return errors.Join(deleted, closed)
}
