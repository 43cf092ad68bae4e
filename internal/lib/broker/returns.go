package broker

import (
	"cmp"
	"context"
	"crypto/rand"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Returns consumes a queue to which messages of this process come back. It is exclusive to the
// control connection. Each consumer has its own queue and its own channel. So a consumer that
// nobody owns any more takes nothing from another. One goroutine uses it.
type Returns struct {
	Control  *Control
	Name     string // of the queue, before a part that is random
	Exchange string // to which it is bound, with its name as the key

	from returning
}

type returning struct {
	ch    *amqp091.Channel
	queue string
	in    <-chan amqp091.Delivery // nil once the broker has ended it
}

// Open makes sure that the queue and the consumer exist, as far as is known.
func (r *Returns) Open(ctx context.Context) error {
	if r.from.in != nil && !r.from.ch.IsClosed() {
		return nil
	}
	was := r.from
	next, err := Ask(ctx, r.Control, func(*amqp091.Channel) (returning, error) {
		was.close()
		return r.consume(ctx)
	})
	if err == nil {
		r.from = next
	}
	return err
}

// consume declares the queue, which the broker deletes with its consumer.
func (r *Returns) consume(ctx context.Context) (from returning, err error) {
	if from.ch, err = r.Control.Conn().Channel(ctx); err != nil {
		return from, err
	}
	defer func() {
		if err = cmp.Or(err, ctx.Err()); err != nil { // whose end the caller does not survive
			from.close()
		}
	}()
	const durable, autoDelete, exclusive = false, true, true
	from.queue = r.Name + "." + rand.Text()
	_, err = from.ch.QueueDeclare(from.queue, durable, autoDelete, exclusive, waitForAnswer, amqp091.Table{"x-queue-type": "classic"})
	if err != nil {
		return from, err
	}
	if err = from.ch.QueueBind(from.queue, from.queue, r.Exchange, waitForAnswer, nil); err != nil {
		return from, err
	}
	const anyTag, autoAck, noLocal = "", true, false
	from.in, err = from.ch.Consume(from.queue, anyTag, autoAck, exclusive, noLocal, waitForAnswer, nil)
	return from, err
}

// Queue is the name of the queue.
func (r *Returns) Queue() string { return r.from.queue }

// Messages receives what comes back. It is nil before Open, and closed when the broker has
// ended the consumer.
func (r *Returns) Messages() <-chan amqp091.Delivery { return r.from.in }

// Ended notes that Messages was closed.
func (r *Returns) Ended() { r.from.in = nil }

func (f returning) close() {
	if f.ch != nil {
		_ = f.ch.Close() // fails only if it is closed already
	}
}
