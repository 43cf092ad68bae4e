package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A Handler handles one message. If it returns nil, the message is acknowledged; if it returns an
// error, panics or calls [runtime.Goexit], the message is retried or parked. It must not
// acknowledge the message itself. It may see a message more than once, also after it has returned
// nil.
//
// ctx ends after [Config].HandlerTimeout, when the connection is lost, and [Config].StopTimeout
// after the consumer was told to stop. In the last two cases the broker delivers the message again.
type Handler func(ctx context.Context, d amqp091.Delivery) error

// A Retrier retries and parks the messages of one queue, for a consumer of your own. Most programs
// call [Consume], which has both. It is safe for concurrent use.
type Retrier struct {
	delayer delayer.Delayer
	cfg     Config
	planner planner
	control *broker.Control
	stop    context.CancelFunc // ends running
	running sync.WaitGroup
}

// Open connects, checks that the queue exists, and declares the queue for parked messages. d
// publishes the retries; the caller closes it after the Retrier. ctx bounds the opening only. Errors
// are [delayer.ErrConfig], also for streams; [delayer.ErrUnroutable] if the queue does not exist;
// [delayer.ErrAccess] and [delayer.ErrUnavailable].
func Open(ctx context.Context, d delayer.Delayer, cfg Config) (*Retrier, error) {
	r, err := newRetrier(d, cfg)
	if err != nil {
		return nil, err
	}
	conn, err := broker.Dial(ctx, broker.Options{
		URL: r.cfg.URL, TLS: r.cfg.TLS, Logger: r.cfg.Logger, Name: "delayer retry " + r.cfg.Queue,
		Open: broker.ControlChannels + 1, // which consumes
	})
	if err != nil {
		return nil, err
	}
	r.control = broker.NewControl(conn)
	if err := r.prepare(ctx); err != nil {
		r.control.Close()
		return nil, err
	}
	closing, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	if r.cfg.Observer.Parked != nil {
		r.running.Go(func() { r.count(closing) })
	}
	return r, nil
}

// newRetrier returns a Retrier without a connection.
func newRetrier(d delayer.Delayer, cfg Config) (*Retrier, error) {
	if d == nil {
		return nil, &delayer.Error{
			Op: "open retry", Object: "delayer", Kind: delayer.ErrConfig, Cause: errors.New("it is nil: open one with package backend"),
		}
	}
	limits := d.Limits()
	cfg, err := cfg.resolve(limits)
	if err != nil {
		return nil, err
	}
	return &Retrier{delayer: d, cfg: cfg, planner: planner{cfg.Policy, limits, rand.Float64}}, nil
}

// Close ends the connection. It does not close the Delayer.
func (r *Retrier) Close() error {
	r.stop()
	r.running.Wait()
	r.control.Close()
	return nil
}

// lookEvery is how often the parked messages are counted for the Observer.
const lookEvery = 30 * time.Second

// count tells the Observer how many messages are parked, until ctx ends. It reads none of them:
// each message that is given back counts towards a delivery limit.
func (r *Retrier) count(ctx context.Context) {
	for ctx.Err() == nil {
		if q, known, _ := r.control.Count(ctx, r.cfg.Parked); known {
			r.cfg.Observer.Parked(delayer.ParkedEvent{Queue: r.cfg.Queue, Messages: q.Messages})
		}
		_ = pace.Sleep(ctx, lookEvery)
	}
}

// Do runs the handler on a delivery of the queue. It returns true if the handler has succeeded, or
// if the broker has confirmed the message's retry or parked copy: acknowledge the message. It
// returns false after [Config].Hold, or if ctx ends: give the message back, by a nack with requeue.
// Stop the consumer before ctx ends.
func (r *Retrier) Do(ctx context.Context, d amqp091.Delivery, handler Handler) (acknowledge bool) {
	f := r.handle(ctx, &d, handler)
	switch {
	case f == nil:
		return true
	case f.interrupted:
		time.Sleep(firstPause) // if the consumer goes on all the same
		return false
	}
	return r.settle(ctx, context.WithoutCancel(ctx), f)
}

type failure struct {
	delivery    *amqp091.Delivery
	interrupted bool // by a stop or a lost connection: the attempt does not count
	state       attempt.State
	decision    decision
	stripped    bool // because it was too large to be parked whole
	name        slog.Attr
	event       delayer.HandledEvent
}

// handle runs the handler. It returns nil if the handler succeeded.
func (r *Retrier) handle(ctx context.Context, d *amqp091.Delivery, handler Handler) *failure {
	s := attempt.Of(r.cfg.Queue, d, time.Now())
	seen := s.Seen(*d)
	seen.Acknowledger = refusing{}
	run, chance := &run{state: s, planner: r.planner}, r.planner.chance()
	run.planner.chance = func() float64 { return chance } // each question gets the same answer
	limited, cancel := context.WithTimeout(context.WithValue(ctx, infoKey{}, run), r.cfg.HandlerTimeout)
	began := time.Now()
	err := r.call(limited, seen, handler)
	event := delayer.HandledEvent{Queue: r.cfg.Queue, Attempt: s.Failures + 1, Began: began, Took: time.Since(began), Err: err}
	cancel()
	if e, err := delayer.ParseHeader(d.Headers); err == nil {
		event.Due = e.Due
	}
	switch {
	case err == nil:
		r.handled(event, delayer.Succeeded)
		return nil
	case ctx.Err() != nil:
		r.handled(event, delayer.GivenBack)
		return &failure{delivery: d, interrupted: true}
	}
	s, decision := run.fail(err, fmt.Sprint(err)) // Sprint also returns if the Error method panics
	return &failure{delivery: d, state: s, decision: decision, name: message.Attr(&seen), event: event}
}

func (r *Retrier) handled(e delayer.HandledEvent, outcome delayer.Handling) {
	if tell := r.cfg.Observer.Handled; tell != nil {
		e.Outcome = outcome
		tell(e)
	}
}

var errGoexit = errors.New("the handler called runtime.Goexit, as FailNow of a test does")

// call runs the handler and returns a panic as an error. The handler has a goroutine of its own:
// runtime.Goexit ends the goroutine that calls it, and that of a worker has more to do.
func (r *Retrier) call(ctx context.Context, d amqp091.Delivery, handler Handler) error {
	done := make(chan error)
	go func() {
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
				r.cfg.Logger.Error("the handler panicked", message.Attr(&d), "panic", p, "stack", string(debug.Stack()))
			}
			done <- err
		}()
		err = handler(ctx, d)
	}()
	return <-done
}

// refusing is the Acknowledger that handlers see. A second acknowledgement would close the channel.
type refusing struct{}

var errRefusing = errors.New("package retry acknowledges the message: return nil or an error")

func (refusing) Ack(uint64, bool) error        { return errRefusing }
func (refusing) Nack(uint64, bool, bool) error { return errRefusing }
func (refusing) Reject(uint64, bool) error     { return errRefusing }

const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// settle publishes a failed message, again and again with growing pauses, and returns true once the
// broker has confirmed it. It returns false after Hold, when stop ends between two attempts, and
// when alive ends: then the broker delivers the message again.
func (r *Retrier) settle(stop, alive context.Context, f *failure) bool {
	held, release := context.WithTimeout(alive, r.cfg.Hold)
	defer release()
	waiting, wake := context.WithCancel(held)
	defer wake()
	defer context.AfterFunc(stop, wake)()
	over := func() bool { return waiting.Err() != nil || stop.Err() != nil }
	pauses := pace.Backoff{First: firstPause, Longest: longestPause}
	for {
		err := r.publish(held, f)
		attrs := []any{f.name, "attempt", f.state.Failures, "error", f.state.LastError()}
		switch {
		case err == nil && f.decision.park != "":
			r.cfg.Logger.Warn("a message is parked", append(attrs, "parked", r.cfg.Parked, "reason", f.state.Reason)...)
			r.handled(f.event, delayer.Parked)
			return true
		case err == nil:
			r.cfg.Logger.Info("a message will be retried", append(attrs, "in", f.decision.wait)...)
			r.handled(f.event, delayer.Retried)
			return true
		}
		if !over() {
			next := pauses.Failed()
			r.cfg.Logger.Warn("a failed message is not confirmed where it is to wait", f.name, "error", err, "again_in", next)
			_ = pace.Sleep(waiting, next)
		}
		if over() {
			r.cfg.Logger.Warn("a failed message goes back to its queue", f.name, "error", err)
			r.handled(f.event, delayer.GivenBack)
			return false
		}
	}
}

// publish publishes a retry, or parks the message, and returns nil once that is confirmed. A
// message that the Delayer refuses to delay is parked.
func (r *Retrier) publish(ctx context.Context, f *failure) error {
	ctx, cancel := broker.Attempt(ctx, len(f.delivery.Body))
	defer cancel()
	if f.decision.park == "" {
		err := r.send(ctx, r.cfg.Queue, f.decision.wait, f)
		if !refused(err) {
			return err
		}
		f.decision.park = "it cannot be retried: " + err.Error()
	}
	err := r.park(ctx, f)
	if refused(err) && !f.stripped { // what is too large goes: its headers, and all but the last failure
		d := *f.delivery
		d.Headers = nil
		f.delivery, f.stripped = &d, true
		f.state.Original.CC, f.state.Original.ID = nil, ""
		f.state.History = f.state.History[max(len(f.state.History)-1, 0):]
		err = r.park(ctx, f)
	}
	return err
}

// refused reports whether the Delayer will refuse the same message for ever.
func refused(err error) bool {
	return errors.Is(err, delayer.ErrInvalid) || errors.Is(err, delayer.ErrOutOfRange)
}

func (r *Retrier) park(ctx context.Context, f *failure) error {
	f.state.Reason = f.decision.park
	if f.stripped {
		f.state.Reason = "too large to be parked whole, so without its headers and all but the last failure: " + f.decision.park
	}
	err := r.send(ctx, r.cfg.Parked, 0, f)
	if !errors.Is(err, delayer.ErrUnroutable) {
		return err
	}
	if err := r.declareParked(ctx); err != nil { // someone has deleted it
		return err
	}
	return r.send(ctx, r.cfg.Parked, 0, f)
}

func (r *Retrier) send(ctx context.Context, queue string, delay time.Duration, f *failure) error {
	msg := f.state.Publishing(f.delivery, r.planner.limits.MaxPriority)
	return r.delayer.Publish(ctx, "", queue, delay, msg)
}
