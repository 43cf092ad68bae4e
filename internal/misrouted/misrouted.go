// Package misrouted sends on messages that an exchange of ours could not route although their
// destination exists. Up to RabbitMQ 3.12 each restart of the broker misroutes up to 32 messages a
// queue.
//
//	exchange <prefix>.unroutable → <prefix>.misrouted ─ Mover ┬ sends it on
//	                                                          └ <prefix>.unroutable.keep → <prefix>.unroutable
//
// One process of a prefix does so at a time. A message is acknowledged only after it was published
// elsewhere and confirmed, so none is lost. After a lost connection one may arrive twice, with the
// same id. Messages that a Mover must not send on go to the unroutable queue, for an operator.
package misrouted

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/message"
)

// A control runs f on a channel. It is a *broker.Control.
type control interface {
	Do(ctx context.Context, f func(*amqp091.Channel) error) error
}

// Config is what a Mover needs of its Delayer.
type Config struct {
	Prefix  string
	Stage   delivery.Stage
	Control *broker.Control // a connection that does not publish
	Log     *slog.Logger
	Rules   Rules

	Backend  string
	Observer delayer.Observer // is told what became of each message

	// Resend sends messages on. Without it all messages are moved to the unroutable queue.
	Resend bool

	Publish       func(context.Context, broker.Publishing) error // to an exchange of ours
	PublishDirect func(context.Context, broker.Publishing) error // to a destination

	// Delay publishes a message that waits for its remaining delay. It keeps the id and the due
	// time.
	Delay func(ctx context.Context, e message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error

	// Mend makes the bindings that a message with this routing key needs to leave a waiting queue.
	Mend func(ctx context.Context, queue, key string) error

	// Vouches reports whether this process has bound a destination and has not seen it gone since.
	Vouches func(exchange, key string) bool

	// Declare declares the topology. It is called when a queue of ours is gone.
	Declare func(context.Context) error
}

const (
	prefetch     = 256              // messages in hand at a time
	standbyPause = 10 * time.Second // between two attempts to get the lock; at random down to half of it
	publishFor   = 30 * time.Second // for one attempt to publish
	drainFor     = 5 * time.Second  // for what is being published when a Mover closes
	complainAt   = time.Minute      // the least time between two complaints
)

// A Mover consumes the misrouted queue while it holds the lock.
type Mover struct {
	cfg  Config
	lock lock

	watched  atomic.Bool // until the last outage this process or another was live
	again    *tally      // messages by id that had to wait again
	refused  refusals
	repairs  repairs
	silentTo atomic.Int64
	began    time.Time
	foreign  sync.Mutex // messages without an id are published one at a time: their returns look alike

	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	work   context.Context // ended a while after
	abort  context.CancelFunc
	done   chan struct{}
}

// Start returns a Mover that consumes as soon as no other process does. Close ends it.
func Start(cfg Config) *Mover {
	const remembered = 10_000
	m := &Mover{
		cfg: cfg, lock: lock{cfg.Control, cfg.Publish, cfg.Stage.Misrouted()}, again: newTally(remembered), began: time.Now(),
		done: make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.work, m.abort = context.WithCancel(context.Background())
	go m.run()
	return m
}

// Watched reports whether a Mover, this one or another process's, is at work and has settled what was
// there when it began. It stays true over an outage: what is there afterwards came during it.
func (m *Mover) Watched() bool { return m.watched.Load() }

// Close stops taking messages and waits up to five seconds for those that are being published. The
// broker redelivers the others.
func (m *Mover) Close() {
	m.cancel()
	defer time.AfterFunc(drainFor, m.abort).Stop()
	<-m.done
	m.abort()
}

// run competes for the lock and works while it has it.
func (m *Mover) run() {
	defer close(m.done)
	for waited := false; m.ctx.Err() == nil; {
		ours, err := m.acquire(waited)
		switch {
		case err != nil:
			m.failed("cannot look after misrouted messages", err)
		case ours:
			m.consume()
		}
		pause := standbyPause
		if waited = !ours; ours {
			pause = firstPause // the connection or the queue was lost
		}
		if !sleep(m.ctx, pause/2+rand.N(pause/2)) {
			return
		}
	}
}

// acquire tries to get the lock. Each refusal costs a channel and a line in the broker's log. So a
// process that has waited asks only whether the other is live.
func (m *Mover) acquire(waited bool) (ours bool, err error) {
	if !waited {
		if ours, err = m.lock.acquire(m.ctx); ours || err != nil {
			return ours, err
		}
	}
	watched, err := m.lock.watched(m.ctx)
	if watched || err != nil {
		m.watched.Store(m.watched.Load() || watched)
		return false, err
	}
	if ours, err = m.lock.acquire(m.ctx); !ours && err == nil {
		m.watched.Store(false) // another process has begun, and has not announced yet
	}
	return ours, err
}

// failed logs errors that an operator must act on. The connection itself logs that the broker
// cannot be reached.
func (m *Mover) failed(text string, err error) {
	if errors.Is(err, delayer.ErrNotSent) || errors.Is(err, delayer.ErrUnknown) || broker.Code(err) != amqp091.AccessRefused {
		m.cfg.Log.Debug(text, "queue", m.cfg.Stage.Misrouted(), "error", err)
		return
	}
	m.complain(text, "error", err)
}

// complain logs at most once a minute: many messages often have the same problem.
func (m *Mover) complain(text string, args ...any) {
	now, silent := int64(time.Since(m.began)), m.silentTo.Load()
	if m.ctx.Err() == nil && now >= silent && m.silentTo.CompareAndSwap(silent, now+int64(complainAt)) {
		m.cfg.Log.Warn(text, append(args, "queue", m.cfg.Stage.Misrouted())...)
	}
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
