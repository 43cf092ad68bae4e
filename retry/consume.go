package retry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// Consume hands the messages of a queue to the handler until ctx ends, and then returns nil. It
// reconnects whenever the connection is lost. When ctx ends, it takes no more messages, waits for
// the handlers that run and settles their messages; the rest of what was prefetched goes back to
// the queue. Its errors are those of [Open], if it cannot start. The caller closes d.
func Consume(ctx context.Context, d delayer.Delayer, cfg Config, handler Handler) error {
	if handler == nil {
		return &delayer.Error{Op: "open retry", Object: "handler", Kind: delayer.ErrConfig, Cause: errors.New("it is nil: give a function")}
	}
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

	// An Ack or Nack fails only if the channel is lost: then the message comes again.
	const multiple, requeue = false, true
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
				switch {
				case f == nil:
					_ = d.Ack(multiple)
				case !f.interrupted:
					running.Go(func() { // other messages are handled meanwhile
						if r.settle(stop, alive, f) {
							_ = d.Ack(multiple)
						} else {
							_ = d.Nack(multiple, requeue)
						}
					})
				}
			}
		}
	}
	for range r.cfg.Concurrency {
		running.Go(work)
	}
	running.Wait()
}

// An Attempt describes one run of the handler for a message.
type Attempt struct {
	Number       int       // from 1
	Max          int       // the number of the last attempt
	FirstFailure time.Time // zero at the first attempt
	LastError    string    // of the previous attempt: valid UTF-8, at most 500 bytes
	// UserID is the user-id that the message had at its first attempt. Trust it at the first
	// attempt only: later the broker has not checked it.
	UserID string
}

type infoKey struct{}

// WithAttempt returns a ctx for the test of a handler. With it [Info] returns a, and [Last] is true
// if a.Number is at least a.Max, or the error is permanent.
func WithAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, infoKey{}, a)
}

// Info returns the attempt of the handler that was given ctx, or a zero Attempt.
func Info(ctx context.Context) Attempt {
	run, _ := ctx.Value(infoKey{}).(*run)
	if run == nil {
		a, _ := ctx.Value(infoKey{}).(Attempt) // of WithAttempt
		return a
	}
	s := run.state
	return Attempt{
		Number: s.Failures + 1, Max: run.planner.policy.attempts(), FirstFailure: s.First, LastError: s.LastError(), UserID: s.Original.UserID,
	}
}

// Last reports whether the message will be parked if the handler that was given ctx fails with err
// now: because err is permanent, or because the attempts, [Policy].MaxAge or the longest delay
// allow no other. Ask shortly before the handler returns, such as to note in a database that the
// work has failed for good: its answer is kept to, however long that takes. It is true for a ctx of
// no handler.
//
// Two cases remain. An attempt that is interrupted, as by a lost connection, is made again after
// all. And a message whose headers leave no room for a retry's is parked although another attempt
// was due.
func Last(ctx context.Context, err error) bool {
	run, _ := ctx.Value(infoKey{}).(*run)
	if run == nil {
		a := Info(ctx)
		return a.Number >= a.Max || isPermanent(err)
	}
	now := time.Now()
	run.asked.Store(&now)
	_, decision := run.fail(err, "")
	return decision.park != ""
}

type run struct {
	state   attempt.State // before it
	planner planner
	asked   atomic.Pointer[time.Time] // when the handler last asked whether it is the last
}

// fail returns the state and the decision after a failure. It is of the time when the handler asked
// what would become of the message, because the answer must stay true.
func (r *run) fail(err error, text string) (attempt.State, decision) {
	now := time.Now()
	if asked := r.asked.Load(); asked != nil {
		now = *asked
	}
	s := r.state.Fail(now, text)
	return s, r.planner.decide(s, now, err)
}
