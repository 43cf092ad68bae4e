package memory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/conformance"
)

// World returns a view of the broker.
func (b *Broker) World(context.Context) (conformance.World, error) {
	return &world{Broker: b}, nil
}

// world remembers what it declared, to delete it.
type world struct {
	*Broker
	mine      sync.Mutex
	queues    []string
	exchanges []string
}

var errAbsent = errors.New("no such queue or exchange")

func (w *world) DeclareQueue(_ context.Context, name string) error {
	w.mine.Lock()
	w.queues = append(w.queues, name)
	w.mine.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Broker.queues[name] == nil {
		w.Broker.queues[name] = &queue{}
	}
	return nil
}

func (w *world) DeleteQueue(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.Broker.queues, name)
	for _, e := range w.Broker.exchanges {
		e.bindings = slices.DeleteFunc(e.bindings, func(b binding) bool { return b.queue == name })
	}
	return nil
}

func (w *world) DeclareExchange(_ context.Context, name, kind string) error {
	w.mine.Lock()
	w.exchanges = append(w.exchanges, name)
	w.mine.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Broker.exchanges[name] == nil {
		w.Broker.exchanges[name] = &exchange{kind: kind}
	}
	return nil
}

func (w *world) DeleteExchange(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.Broker.exchanges, name)
	return nil
}

func (w *world) Bind(_ context.Context, queue, key, exchange string, args amqp091.Table) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.Broker.exchanges[exchange]
	if e == nil || w.Broker.queues[queue] == nil {
		return errAbsent
	}
	e.bindings = append(e.bindings, binding{queue, key, args})
	return nil
}

func (w *world) Unbind(_ context.Context, queue, key, exchange string, args amqp091.Table) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.Broker.exchanges[exchange]
	if e == nil {
		return errAbsent
	}
	e.bindings = slices.DeleteFunc(e.bindings, binding{queue, key, args}.equal)
	return nil
}

func (w *world) Publish(_ context.Context, exchange, key string, msg amqp091.Publishing) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.route(exchange, key, clone(msg))
	return nil
}

func (w *world) Consume(_ context.Context, queue string, arrived func(conformance.Arrival)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.Broker.queues[queue]
	if q == nil {
		return errAbsent
	}
	q.consumer = arrived
	for _, a := range q.backlog {
		a.At = time.Now()
		arrived(a)
	}
	q.backlog = nil
	return nil
}

func (w *world) Unroutable(_ context.Context, arrived func(conformance.Arrival)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers = append(w.watchers, arrived)
	for _, a := range w.unroutable {
		arrived(a)
	}
	return nil
}

func (w *world) Cut(context.Context) error {
	w.busy() // a fault that shows only then must show
	w.Broker.Cut()
	return nil
}

func (w *world) Restart(context.Context) error {
	const pause = 100 * time.Millisecond
	w.Broker.Restart(pause)
	return nil
}

func (w *world) Close() error {
	for _, name := range w.queues {
		_ = w.DeleteQueue(context.Background(), name) // It has no error to return.
	}
	for _, name := range w.exchanges {
		_ = w.DeleteExchange(context.Background(), name)
	}
	return nil
}
