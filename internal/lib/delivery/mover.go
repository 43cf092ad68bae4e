package delivery

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
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// A publisher publishes to an exchange of ours, or with PublishDirect to a destination. It is a
// *broker.Publisher.
type publisher interface {
	Publish(context.Context, broker.Publishing) error
	PublishDirect(context.Context, broker.Publishing) error
}

// MoverConfig is what a Mover needs.
type MoverConfig struct {
	Destinations *Destinations   // says which destinations are known; lost bindings to them are made again
	Control      *broker.Control // a connection that does not publish
	Publisher    publisher
	Observer     delayer.Observer // is told what became of each message

	// Resend sends messages on. Without it all messages are moved to the unroutable queue.
	Resend bool
	Rules  Rules
	// Delivering are exchanges from which messages go to their destinations, beside those of the
	// stage.
	Delivering []string

	// Leaving returns the bindings by which messages leave a waiting queue, for keys of so many
	// words. It is nil if the plan of Open has them all.
	Leaving func(queue string, words int) topology.Plan
	// Watch is called every minute while this Mover is at work: as long as one Delayer of the
	// prefix runs, its topology is looked after.
	Watch func()
	// Restore declares objects that are gone.
	Restore func(context.Context, topology.Plan) error
	// Delay publishes a message that waits for its remaining delay. It keeps the id and the due
	// time.
	Delay func(ctx context.Context, e message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error
}

const (
	prefetch     = 256              // messages in hand at a time
	standbyPause = 10 * time.Second // between two attempts to get the lock; at random down to half of it
	drainFor     = 5 * time.Second  // for what is being published when a Mover closes
	watchEvery   = time.Minute      // between two calls of Watch
)

// A Mover sends on messages that an exchange of ours could not route although their destination
// exists. Up to RabbitMQ 3.12 each restart of the broker misroutes up to 32 messages a queue.
//
// One Mover of a prefix is at work at a time: it consumes the misrouted queue while it holds the
// lock. A message is acknowledged only after it was published elsewhere and confirmed, so none is
// lost. After a lost connection one may arrive twice, with the same id. Messages that a Mover must
// not send on go to the unroutable queue, for an operator.
type Mover struct {
	cfg   MoverConfig
	stage Stage
	log   *slog.Logger
	lock  lock

	watched    atomic.Bool // until the last outage this process or another was live
	again      *tally      // messages by id that had to wait again
	refused    refusals
	repairs    repairs
	complaints Complaints
	foreign    sync.Mutex // messages without an id are published one at a time: their returns look alike

	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	work   context.Context // ended a while after
	abort  context.CancelFunc
	done   chan struct{}
}

// StartMover returns a Mover that consumes as soon as no other process does. Close ends it.
func StartMover(cfg MoverConfig) *Mover {
	const remembered = 10_000
	to := cfg.Destinations
	m := &Mover{
		cfg: cfg, stage: to.stage, log: to.log.With("backend", to.backend),
		lock:  lock{cfg.Control, cfg.Publisher, to.stage.Misrouted()},
		again: newTally(remembered), done: make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.work, m.abort = context.WithCancel(context.Background())
	go m.run()
	return m
}

// Watched reports whether a Mover, this one or another process's, is at work and has settled what
// was there when it began. It stays true over an outage: what is there afterwards came during it.
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
	var failures streak
	for waited := false; m.ctx.Err() == nil; {
		began := time.Now()
		ours, err := m.acquire(waited)
		switch {
		case err != nil:
			m.failed("cannot look after misrouted messages", err)
		case ours:
			err = m.consume()
		}
		if ours && broker.Code(err) == amqp091.AccessRefused {
			_ = m.lock.release(m.ctx) // another user may do more; it is gone with the connection too
		}
		waited = !ours
		pause := failures.pause(err, time.Since(began))
		if !sleep(m.ctx, pause/2+rand.N(pause/2)) {
			return
		}
	}
}

// A streak counts attempts that failed one after the other.
type streak int

// pause returns the pause after an attempt: a second after a failure, and more after several, or a
// user without a permission would ask the broker all the time.
func (s *streak) pause(err error, took time.Duration) time.Duration {
	if err == nil || took > longestPause {
		*s = 0
	}
	if err == nil {
		return standbyPause
	}
	*s++
	return pauseFor(int(*s))
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
		m.log.Debug(text, "queue", m.stage.Misrouted(), "error", err)
		return
	}
	m.complain(text, "error", err)
}

// complain logs each text at most once a minute, unless the Mover closes.
func (m *Mover) complain(text string, args ...any) {
	if m.ctx.Err() == nil {
		m.complaints.Warn(m.log, text, append(args, "queue", m.stage.Misrouted())...)
	}
}
