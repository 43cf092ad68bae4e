//go:build !race

package simulator

import (
	"context"
	"errors"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/delayertest"
)

// around is what the suite sees of a model.
type around struct{ *model }

func (a *around) DeclareQueue(_ context.Context, name string) error {
	a.do(func() {
		if a.table.Queues[name] == nil {
			s := &sink{}
			s.destination = a.broker.newDestination(func(it *item) {
				a.account.delivered(it)
				s.arrive(it.of.payload)
			})
			a.table.Queues[name] = s
		}
	})
	return nil
}

func (a *around) DeclareFullQueue(ctx context.Context, name string) error {
	err := a.DeclareQueue(ctx, name)
	a.do(func() { a.table.Queues[name].refuses = true })
	return err
}

func (a *around) DeclareStuckQueue(ctx context.Context, name string) (resume func(context.Context) error, err error) {
	err = a.DeclareQueue(ctx, name)
	a.do(func() { a.table.Queues[name].silent = true })
	return func(context.Context) error {
		a.do(func() {
			s := a.table.Queues[name]
			s.silent = false
			s.log.pump()
		})
		return nil
	}, err
}

func (a *around) DeleteQueue(_ context.Context, name string) error {
	a.do(func() { a.table.DeleteQueue(name) })
	return nil
}

func (a *around) DeclareExchange(_ context.Context, name, kind string) error {
	a.do(func() { a.table.DeclareExchange(name, kind) })
	return nil
}

func (a *around) DeleteExchange(_ context.Context, name string) error {
	a.do(func() { a.table.DeleteExchange(name) })
	return nil
}

func (a *around) Bind(_ context.Context, queue, key, exchange string, args amqp091.Table) (err error) {
	a.do(func() { err = a.table.Bind(queue, key, exchange, args) })
	return err
}

func (a *around) Unbind(_ context.Context, queue, key, exchange string, args amqp091.Table) (err error) {
	a.do(func() { err = a.table.Unbind(queue, key, exchange, args) })
	return err
}

func (a *around) Publish(ctx context.Context, exchange, key string, msg amqp091.Publishing) error {
	plain := delayertest.New(delayertest.Config{})
	if err := plain.Publish(ctx, exchange, key, 0, msg); err != nil {
		return err
	}
	r := &record{payload: plain.Advance(0)[0]}
	delete(r.payload.Headers, delayer.Header)
	stored := make(chan struct{})
	a.do(func() { a.broker.deliver(&item{of: r})(func(wheel.Outcome) { close(stored) }) })
	select {
	case <-stored:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *around) Consume(_ context.Context, queue string, arrived func(conformance.Arrival)) (err error) {
	a.do(func() {
		s := a.table.Queues[queue]
		if s == nil {
			err = errors.New("no such queue")
			return
		}
		s.consumer = arrived
		for _, b := range s.backlog {
			b.At = time.Now()
			arrived(b)
		}
		s.backlog = nil
	})
	return err
}

func (a *around) Unroutable(_ context.Context, arrived func(conformance.Arrival)) error {
	a.do(func() {
		a.watchers = append(a.watchers, arrived)
		for _, u := range a.unroutable {
			arrived(u)
		}
	})
	return nil
}

func (a *around) Cut(context.Context) error {
	a.do(func() {
		for _, c := range slices.Clone(a.broker.conns) {
			c.close()
		}
	})
	return nil
}

func (a *around) DeleteOwnExchange(context.Context) error {
	return conformance.Unable("delete an exchange: the model's processes publish to queues")
}

// Restart lets the broker crash, which is worse.
func (a *around) Restart(ctx context.Context) error {
	a.do(func() { a.crash(2 * time.Second) })
	return a.await(ctx, func() bool { return !a.broker.down })
}

// Clock is the bubble's, as all clocks are.
func (a *around) Clock(context.Context) (conformance.Clock, error) { return bubble{}, nil }

type bubble struct{}

func (bubble) Now() time.Time { return time.Now() }

func (bubble) Forward(_ context.Context, d time.Duration) error {
	time.Sleep(d)
	return nil
}

func (a *around) Close() error { return nil }
