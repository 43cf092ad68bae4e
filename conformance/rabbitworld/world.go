package rabbitworld

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/internal/amqpclient"
)

// What the bare booleans of amqp091 mean here.
const (
	durable    = true
	autoDelete = false
	exclusive  = false
	internal   = false
	ifUnused   = false
	ifEmpty    = false
	noWait     = false
)

// world remembers what it declared, to delete it.
type world struct {
	broker *Worlds
	client *amqpclient.Client

	mu        sync.Mutex
	queues    []string
	exchanges []string
}

var _ conformance.World = (*world)(nil)

func (w *world) DeclareQueue(ctx context.Context, name string) error {
	w.mu.Lock()
	w.queues = append(w.queues, name)
	w.mu.Unlock()
	return w.client.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(name, durable, autoDelete, exclusive, noWait, amqp091.Table{amqp091.QueueTypeArg: w.broker.cfg.QueueType})
		return err
	})
}

func (w *world) DeleteQueue(ctx context.Context, name string) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(name, ifUnused, ifEmpty, noWait)
		return err
	})
}

func (w *world) DeclareExchange(ctx context.Context, name, kind string) error {
	w.mu.Lock()
	w.exchanges = append(w.exchanges, name)
	w.mu.Unlock()
	return w.client.Do(ctx, func(ch *amqp091.Channel) error {
		return ch.ExchangeDeclare(name, kind, durable, autoDelete, internal, noWait, nil)
	})
}

func (w *world) DeleteExchange(ctx context.Context, name string) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return ch.ExchangeDelete(name, ifUnused, noWait) })
}

func (w *world) Bind(ctx context.Context, queue, key, exchange string, args amqp091.Table) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return ch.QueueBind(queue, key, exchange, noWait, args) })
}

func (w *world) Unbind(ctx context.Context, queue, key, exchange string, args amqp091.Table) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return ch.QueueUnbind(queue, key, exchange, args) })
}

func (w *world) Publish(ctx context.Context, exchange, key string, msg amqp091.Publishing) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return publish(ctx, ch, exchange, key, msg) })
}

func (w *world) Consume(ctx context.Context, queue string, arrived func(conformance.Arrival)) error {
	return consume(ctx, w.client, queue, arrived)
}

func (w *world) Unroutable(ctx context.Context, arrived func(conformance.Arrival)) error {
	if err := w.broker.collect(ctx); err != nil {
		return err
	}
	w.broker.watch(arrived)
	return nil
}

func (w *world) Cut(ctx context.Context) error {
	if w.broker.cfg.Cut == nil {
		return conformance.Unable("cut: Config.Cut is nil")
	}
	return w.broker.cfg.Cut(ctx)
}

func (w *world) Restart(ctx context.Context) error {
	if w.broker.cfg.Restart == nil {
		return conformance.Unable("restart: Config.Restart is nil")
	}
	if err := w.broker.cfg.Restart(ctx); err != nil {
		return err
	}
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return ch.Confirm(noWait) }) // the broker answers
}

// Close deletes what was declared, and closes the connection.
func (w *world) Close() error {
	const enough = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	var errs []error
	for _, name := range w.queues {
		if err := w.DeleteQueue(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("delete queue %s: %w", name, err))
		}
	}
	for _, name := range w.exchanges {
		if err := w.DeleteExchange(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("delete exchange %s: %w", name, err))
		}
	}
	return errors.Join(append(errs, w.client.Close())...)
}
