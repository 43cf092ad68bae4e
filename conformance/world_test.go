package conformance_test

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance"
)

func (b *broker) world(context.Context) (conformance.World, error) {
	return &world{broker: b}, nil
}

// A world deletes nothing when it is closed: its names are its own, and a test has a broker.
type world struct {
	*broker
	stuck []func() // ends it
}

func (w *world) DeclareFullQueue(ctx context.Context, name string) error {
	err := w.DeclareQueue(ctx, name)
	_ = w.locked(func() { w.table.queues[name].full = true })
	return err
}

func (w *world) DeclareStuckQueue(ctx context.Context, name string) (resume func(context.Context) error, err error) {
	err = w.DeclareQueue(ctx, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	stuck := make(chan struct{})
	w.table.queues[name].stuck = stuck
	end := sync.OnceFunc(func() { close(stuck) })
	w.stuck = append(w.stuck, end)
	return func(context.Context) error { end(); return nil }, err
}

func (w *world) DeclareQueue(_ context.Context, name string) error {
	return w.locked(func() {
		if w.table.queues[name] == nil {
			w.table.queues[name] = &queue{}
		}
	})
}

func (w *world) locked(f func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	return nil
}

func (w *world) DeleteQueue(_ context.Context, name string) error {
	return w.locked(func() { w.table.deleteQueue(name) })
}

func (w *world) DeclareExchange(_ context.Context, name, kind string) error {
	return w.locked(func() { w.table.declareExchange(name, kind) })
}

func (w *world) DeleteExchange(_ context.Context, name string) error {
	return w.locked(func() { w.table.deleteExchange(name) })
}

func (w *world) Bind(_ context.Context, queue, key, exchange string, args amqp091.Table) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table.bind(queue, key, exchange, args)
}

func (w *world) Unbind(_ context.Context, queue, key, exchange string, args amqp091.Table) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table.unbind(queue, key, exchange, args)
}

func (w *world) Publish(_ context.Context, exchange, key string, msg amqp091.Publishing) error {
	return w.locked(func() { w.routePlain(delayer.Message{Exchange: exchange, Key: key, Publishing: msg}) })
}

func (w *world) Consume(_ context.Context, queue string, arrived func(conformance.Arrival)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.table.queues[queue]
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

// Cut waits, if that is soon, until a message and a confirm are on their way: some faults show only
// then.
func (w *world) Cut(context.Context) error {
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(trip / 20) {
		if w.sending.Load() > 0 && w.confirming.Load() > 0 {
			break
		}
	}
	w.cutAll()
	return nil
}

func (w *world) DeleteOwnExchange(context.Context) error { return nil } // it has none

func (w *world) Restart(context.Context) error {
	_ = w.locked(func() { w.up = make(chan struct{}) })
	w.cutAll()
	time.Sleep(100 * time.Millisecond)
	return w.locked(func() {
		close(w.up)
		w.release()
	})
}

// Clock returns that of a bubble, in which waiting takes no time.
func (w *world) Clock(context.Context) (conformance.Clock, error) {
	return bubble{}, nil
}

type bubble struct{}

func (bubble) Now() time.Time { return time.Now() }

func (bubble) Forward(_ context.Context, d time.Duration) error {
	time.Sleep(d)
	return nil
}

func (w *world) Close() error {
	for _, end := range w.stuck {
		end()
	}
	return nil
}
