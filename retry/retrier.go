package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/attempt"
	"github.com/delayer-go/delayer/internal/broker"
)

// A Handler works on one message. The message is acknowledged when it returns nil, and retried or
// parked when it returns an error or panics. It acknowledges nothing itself. It may see a message more
// than once, also after it has returned nil.
//
// ctx ends when Config.HandlerTimeout has passed, when the worker stops and Config.StopTimeout has
// passed, and when the connection is lost: the broker then delivers the message again.
type Handler func(ctx context.Context, d amqp091.Delivery) error

// A Retrier decides what becomes of the messages of one queue. [Consume] has one of its own; a consumer
// loop of another library calls Do.
type Retrier struct {
	cfg     Config
	planner planner
	control *broker.Control
}

// Open checks cfg, connects, looks for the queue and declares the one for parked messages. Its errors
// are those of package delayer: ErrConfig, ErrUnroutable if the queue does not exist, ErrAccess,
// ErrUnavailable.
func Open(ctx context.Context, cfg Config) (*Retrier, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	conn, err := broker.Dial(ctx, broker.Options{
		URL: cfg.URL, TLS: cfg.TLS, Logger: cfg.Logger, Name: "delayer retry " + cfg.Queue,
	})
	if err != nil {
		return nil, err
	}
	r := newRetrier(cfg)
	r.control = broker.NewControl(conn)
	if err := r.prepare(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func newRetrier(cfg Config) *Retrier {
	return &Retrier{cfg: cfg, planner: planner{cfg.Policy, cfg.Delayer.Limits(), rand.Float64}}
}

// Close ends the connection. It does not close the Delayer.
func (r *Retrier) Close() { r.control.Close() }

// Do runs the handler on a delivery of the queue. It reports whether to acknowledge the message: the
// handler succeeded, or the broker has confirmed the message where it waits or is parked. Otherwise
// give it back: nack with requeue. That is after Config.Hold, or once ctx has ended, which must not
// be before the consumer has stopped.
func (r *Retrier) Do(ctx context.Context, d amqp091.Delivery, handler Handler) (acknowledge bool) {
	f := r.handle(ctx, &d, handler)
	switch {
	case f == nil:
		return true
	case f.interrupted:
		pause(context.WithoutCancel(ctx), firstPause) // if the consumer goes on all the same
		return false
	}
	return r.settle(ctx, context.WithoutCancel(ctx), f)
}

// A failure is a message whose handler did not succeed.
type failure struct {
	delivery    *amqp091.Delivery
	interrupted bool // the worker was stopped, or the connection lost: this does not count
	state       attempt.State
	decision    decision
}

// handle runs the handler. It returns nil if that succeeded.
func (r *Retrier) handle(ctx context.Context, d *amqp091.Delivery, handler Handler) *failure {
	s := attempt.Of(r.cfg.Queue, d, time.Now())
	seen := s.Seen(*d)
	seen.Acknowledger = refusing{}
	limited, cancel := context.WithTimeout(withInfo(ctx, s, r.cfg.Policy.attempts()), r.cfg.HandlerTimeout)
	err := r.call(limited, seen, handler)
	cancel()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &failure{delivery: d, interrupted: true}
	}
	now := time.Now()
	s = s.Fail(now, fmt.Sprint(err)) // which survives an Error method that panics
	return &failure{delivery: d, state: s, decision: r.planner.decide(s, now, err)}
}

// call makes a panic an error.
func (r *Retrier) call(ctx context.Context, d amqp091.Delivery, handler Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			r.cfg.Logger.Error("the handler panicked", "message", d.MessageId, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return handler(ctx, d)
}

// refusing keeps a handler from acknowledging: a second acknowledgement would close the channel.
type refusing struct{}

var errRefusing = errors.New("package retry acknowledges the message: return nil or an error")

func (refusing) Ack(uint64, bool) error        { return errRefusing }
func (refusing) Nack(uint64, bool, bool) error { return errRefusing }
func (refusing) Reject(uint64, bool) error     { return errRefusing }

const (
	firstPause     = time.Second
	longestPause   = time.Minute
	confirmTimeout = 30 * time.Second
)

// settle publishes a failed message until the broker confirms it, with pauses that grow, and reports
// that. It is false after Hold, when stop ends between two attempts, and when alive ends: the message
// will then be delivered again, and shall not be doubled.
func (r *Retrier) settle(stop, alive context.Context, f *failure) bool {
	deadline := time.Now().Add(r.cfg.Hold)
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		err := r.publish(alive, f)
		if err == nil {
			r.report(f)
			return true
		}
		left := time.Until(deadline)
		if alive.Err() != nil || stop.Err() != nil || left <= 0 {
			r.cfg.Logger.Warn("a failed message goes back to its queue", "message", f.delivery.MessageId, "error", err)
			return false
		}
		next := min(wait/2+rand.N(wait/2), left)
		r.cfg.Logger.Warn("a failed message is not confirmed where it is to wait", "message", f.delivery.MessageId, "error", err, "again_in", next)
		pause(stop, next)
	}
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// report logs what became of a failed message.
func (r *Retrier) report(f *failure) {
	attrs := []any{"message", f.delivery.MessageId, "attempt", f.state.Failures, "error", f.state.LastError()}
	if why := f.decision.park; why != "" {
		r.cfg.Logger.Warn("a message is parked", append(attrs, "parked", r.cfg.Parked, "reason", why)...)
		return
	}
	r.cfg.Logger.Info("a message will be retried", append(attrs, "in", f.decision.wait)...)
}

// publish returns nil once the message is confirmed where it waits, or where it is parked. A message
// that the Delayer cannot delay is parked.
func (r *Retrier) publish(ctx context.Context, f *failure) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	if f.decision.park == "" {
		err := r.send(ctx, r.cfg.Queue, f.decision.wait, f)
		if !errors.Is(err, delayer.ErrInvalid) && !errors.Is(err, delayer.ErrOutOfRange) {
			return err
		}
		f.decision.park = "it cannot be retried: " + err.Error()
	}
	f.state.Reason = f.decision.park
	return r.park(ctx, f)
}

func (r *Retrier) park(ctx context.Context, f *failure) error {
	err := r.send(ctx, r.cfg.Parked, 0, f)
	if errors.Is(err, delayer.ErrInvalid) && len(f.state.History) > 1 { // its headers may be too large
		f.state.History = f.state.History[len(f.state.History)-1:]
		err = r.send(ctx, r.cfg.Parked, 0, f)
	}
	if !errors.Is(err, delayer.ErrUnroutable) {
		return err
	}
	if err := r.declareParked(ctx); err != nil { // someone has deleted it
		return err
	}
	return r.send(ctx, r.cfg.Parked, 0, f)
}

func (r *Retrier) send(ctx context.Context, queue string, delay time.Duration, f *failure) error {
	const defaultExchange = ""
	msg := f.state.Publishing(f.delivery, r.planner.limits.MaxPriority)
	return r.cfg.Delayer.Publish(ctx, defaultExchange, queue, delay, msg)
}
