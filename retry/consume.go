package retry

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// Consume hands the messages of a queue to the handler until ctx ends, and then returns nil. It
// reconnects whenever the connection is lost. When ctx ends, it takes no more messages, waits for
// the handlers that run and settles their messages; the rest of what was prefetched goes back to
// the queue. Its errors are those of [Open], if it cannot start. The caller closes d.
func Consume(ctx context.Context, d delayer.Delayer, cfg Config, handler Handler) error {
	r, err := Open(ctx, d, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it cannot fail
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

// serve handles the messages of one channel until that is lost or stop ends.
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
					running.Go(func() { r.finish(stop, alive, f) }) // other messages are handled meanwhile
				}
			}
		}
	}
	for range r.cfg.Concurrency {
		running.Go(work)
	}
	running.Wait()
}

// finish settles a failed message and acknowledges it, or gives it back.
func (r *Retrier) finish(stop, alive context.Context, f *failure) {
	if r.settle(stop, alive, f) {
		acknowledge(f.delivery)
		return
	}
	const multiple, requeue = false, true
	_ = f.delivery.Nack(multiple, requeue) // fails only if the channel is lost, which does the same
}

// acknowledge removes the message from its queue. It fails only if the channel is lost: then the
// message comes again.
func acknowledge(d *amqp091.Delivery) {
	const multiple = false
	_ = d.Ack(multiple)
}
