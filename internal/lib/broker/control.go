package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Control runs everything that is not publishing, on a connection of its own. A broker that blocks
// publishers because of an alarm still answers here. A channel error, such as a missing queue,
// disturbs no message.
type Control struct {
	conn    *Conn
	jobs    chan *job
	workers sync.WaitGroup
	done    chan struct{} // closed when the workers have ended
}

// ControlChannels is how many calls run at a time. One channel makes about 1,000 bindings a second,
// because each waits for the answer to the one before. Eight make about three times as many
// (3.10.8, 4.0.5 and 4.3.6 on two cores).
const ControlChannels = 8

type job struct {
	run    func(*amqp091.Channel) error
	ctx    context.Context // of the caller; the job is not started once it has ended
	result chan error
	closed atomic.Pointer[error] // for which the broker has closed the connection
}

// gaveUp returns why ctx ended, and what the broker has answered until then.
func (j *job) gaveUp(ctx context.Context, conn *Conn) error {
	err := conn.gaveUp(ctx)
	if closed := j.closed.Load(); closed != nil {
		err = fmt.Errorf("%w, and the broker closed the connection: %w", err, plain(*closed))
	}
	return err
}

// NewControl takes over conn: Close closes it.
func NewControl(conn *Conn) *Control {
	c := &Control{conn: conn, jobs: make(chan *job), done: make(chan struct{})}
	for range ControlChannels {
		c.workers.Go(c.serve)
	}
	go func() { c.workers.Wait(); close(c.done) }()
	return c
}

// Do calls f with a channel that nobody else uses meanwhile, and returns its error. f must be
// idempotent: it is called again if the connection is lost. amqp091-go's calls take no context, so
// f may still run when Do returns because ctx ended: it must not write to its caller's variables.
// [Ask] is for an f with an answer.
func (c *Control) Do(ctx context.Context, f func(*amqp091.Channel) error) error {
	j := &job{run: f, ctx: ctx, result: make(chan error, 1)}
	select {
	case c.jobs <- j:
	case <-ctx.Done():
		return c.conn.gaveUp(ctx)
	case <-c.done:
		return delayer.ErrClosed
	}
	select {
	case err := <-j.result:
		return err
	case <-ctx.Done():
		return j.gaveUp(ctx, c.conn)
	}
}

// Ask is [Control.Do] for an f that has an answer. With an error the answer is the zero value.
func Ask[T any](ctx context.Context, c *Control, f func(*amqp091.Channel) (T, error)) (answer T, err error) {
	var last atomic.Pointer[T] // of the last call of f, if there was more than one
	err = c.Do(ctx, func(ch *amqp091.Channel) error {
		v, err := f(ch)
		last.Store(&v)
		return err
	})
	if err == nil {
		answer = *last.Load()
	}
	return answer, err
}

// Queue declares a queue passively: it must exist. Messages that a consumer holds are not counted.
func (c *Control) Queue(ctx context.Context, name string) (amqp091.Queue, error) {
	const durable, autoDelete, exclusive = true, false, false
	return Ask(ctx, c, func(ch *amqp091.Channel) (amqp091.Queue, error) {
		return ch.QueueDeclarePassive(name, durable, autoDelete, exclusive, waitForAnswer, nil)
	})
}

// slowAfter is how long a queue may take to answer. RabbitMQ answers 0 for a quorum queue that
// takes longer than 250 ms (rabbit_quorum_queue:stat/2 in 3.10 to 4.0).
const slowAfter = 200 * time.Millisecond

// Count is [Control.Queue], and says whether the numbers are known. They are not if RabbitMQ may
// have answered 0 for a quorum queue that is slow, as one is that is read from disk after a start,
// or that handles a body of 100 MiB.
func (c *Control) Count(ctx context.Context, name string) (q amqp091.Queue, known bool, err error) {
	asked := time.Now()
	q, err = c.Queue(ctx, name)
	return q, err == nil && (q.Messages > 0 || time.Since(asked) < slowAfter), err
}

// Conn is the connection that Do works on.
func (c *Control) Conn() *Conn { return c.conn }

// Close ends the goroutines and the connection. Calls in progress fail.
func (c *Control) Close() {
	c.conn.Close()
	<-c.done
}

// serve runs jobs on one channel, which it opens with the first.
func (c *Control) serve() {
	var ch *amqp091.Channel
	for {
		select {
		case <-c.conn.ctx.Done():
			return
		case j := <-c.jobs:
			var err error
			ch, err = c.try(j, ch)
			j.result <- err
		}
	}
}

// try runs a job again until it ends for another reason than a lost connection. It pauses if that
// happens again and again: the broker may close the connection because of the job, as it does where
// a quorum queue cannot be declared because nodes are missing.
func (c *Control) try(j *job, ch *amqp091.Channel) (*amqp091.Channel, error) {
	ctx, stop := context.WithCancelCause(j.ctx)
	defer stop(nil)
	defer context.AfterFunc(c.conn.ctx, func() { stop(delayer.ErrClosed) })()
	pause := pace.Backoff{First: 2 * firstPause, Longest: longestPause}
	for try := 0; ; try++ {
		if try > 1 && pace.Sleep(ctx, pause.Failed()) != nil { // one lost connection is nothing unusual
			return ch, j.gaveUp(ctx, c.conn)
		}
		if ch == nil || ch.IsClosed() {
			var err error
			if ch, err = c.conn.Channel(ctx); err != nil {
				if ctx.Err() != nil {
					err = j.gaveUp(ctx, c.conn)
				}
				return nil, err
			}
		}
		err := j.run(ch)
		if err == nil || !connectionLost(err) {
			return ch, err
		}
		if Code(err) == amqp091.InternalError {
			j.closed.Store(&err)
		}
		if ctx.Err() != nil {
			return ch, j.gaveUp(ctx, c.conn)
		}
	}
}

// connectionLost reports whether err is a lost connection rather than the broker's answer to the
// call. With 504 the broker closes it because amqp091-go has written a command on a channel that
// the broker had closed meanwhile: the call of another channel may be what was answered so.
func connectionLost(err error) bool {
	var amqpErr *amqp091.Error
	if !errors.As(err, &amqpErr) {
		var netErr net.Error
		return errors.As(err, &netErr) || errors.Is(err, io.EOF)
	}
	switch amqpErr.Code {
	case amqp091.ConnectionForced, amqp091.ChannelError:
		return true
	case amqp091.InternalError:
		return !strings.Contains(amqpErr.Reason, flagDisabled)
	}
	return !amqpErr.Server
}

// Explain turns an error of Do into one that names the operation, the object and the remedy.
func Explain(op, backend, object string, err error) error {
	if err == nil {
		return nil
	}
	var known *delayer.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, delayer.ErrClosed) {
		return &delayer.Error{Op: op, Backend: backend, Object: object, Kind: delayer.ErrClosed}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		hint := ""
		if Code(err) == amqp091.InternalError {
			hint = "the broker's log says why"
		}
		return &delayer.Error{Op: op, Backend: backend, Object: object, Kind: delayer.ErrNotSent, Cause: err, Hint: hint}
	}
	hint, kind := classify(err)
	return &delayer.Error{Op: op, Backend: backend, Object: object, Kind: kind, Cause: plain(err), Hint: hint}
}
