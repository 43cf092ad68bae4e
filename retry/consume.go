package retry

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/broker"
)

// Consume hands the messages of a queue to the handler until ctx ends. It connects again as often as
// the connection is lost. Once ctx has ended it takes no more messages, lets the handlers that run
// finish and settles what they return, gives back what was only prefetched, and returns nil. It returns
// an error if it cannot start, those of [Open].
func Consume(ctx context.Context, cfg Config, handler Handler) error {
	r, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	broker.Consume(ctx, r.control.Conn(), broker.Consuming{
		Queue: r.cfg.Queue, Prefetch: r.cfg.Prefetch,
		Serve: func(alive context.Context, messages <-chan amqp091.Delivery) {
			r.serve(ctx, alive, messages, handler)
		},
		Failed: func(_ context.Context, err error) {
			r.cfg.Logger.Warn("the consumer was lost; messages that were not acknowledged come again", "error", err)
		},
	})
	return nil
}

var (
	errLost    = errors.New("the connection was lost: the message will be delivered again")
	errStopped = errors.New("the worker stops: the message will be delivered again")
)

// serve works on the messages of one channel until it is lost or stop has ended.
func (r *Retrier) serve(stop, alive context.Context, messages <-chan amqp091.Delivery, handler Handler) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(stop))
	defer cancel(nil)
	defer context.AfterFunc(alive, func() { cancel(errLost) })()
	defer context.AfterFunc(stop, func() { time.AfterFunc(r.cfg.StopTimeout, func() { cancel(errStopped) }) })()

	var running sync.WaitGroup
	work := func() {
		for stop.Err() == nil {
			select {
			case <-stop.Done():
			case d, open := <-messages:
				if !open {
					return
				}
				if stop.Err() != nil {
					return // not begun: closing the channel gives it back
				}
				f := r.handle(ctx, &d, handler)
				if f == nil {
					acknowledge(&d)
				} else if !f.interrupted {
					running.Go(func() { r.finish(stop, alive, f) }) // while it is held, others are worked on
				}
			}
		}
	}
	for range r.cfg.Concurrency {
		running.Go(work)
	}
	running.Wait()
}

// finish settles a failed message.
func (r *Retrier) finish(stop, alive context.Context, f *failure) {
	if r.settle(stop, alive, f) {
		acknowledge(f.delivery)
		return
	}
	const multiple, requeue = false, true
	_ = f.delivery.Nack(multiple, requeue) // fails only where the channel is lost, which does the same
}

// acknowledge removes the message from its queue. It fails only where the channel is lost: then the
// message comes again.
func acknowledge(d *amqp091.Delivery) {
	const multiple = false
	_ = d.Ack(multiple)
}
