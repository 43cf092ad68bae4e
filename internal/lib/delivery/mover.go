package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
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
	Destinations *Destinations   // lost bindings to them are made again
	Control      *broker.Control // a connection that does not publish
	Publisher    publisher
	Observer     delayer.Observer // is told what became of each message
	Rules        Rules

	// Delivering are exchanges from which messages go to their destinations, beside those of the
	// stage.
	Delivering []string
	// Releasing are the exchanges to which the waiting queues dead-letter, and which a consumer sees.
	Releasing []string
	// Leaving returns the bindings by which messages leave a waiting queue, for keys of so many
	// words. It is nil if the plan of Open has them all.
	Leaving func(queue string, words int) topology.Plan
	// Declare declares bindings that are gone.
	Declare func(context.Context, topology.Plan) error
	// Redeclare declares the topology again: a queue or an exchange of it is gone.
	Redeclare func(context.Context) error
	// Delay publishes a message that waits for its remaining delay. It keeps the id and the due
	// time.
	Delay func(ctx context.Context, e message.Envelope, key string, remaining time.Duration, msg amqp091.Publishing) error
}

const (
	prefetch     = 256             // messages in hand at a time
	drainFor     = 5 * time.Second // for what is being published when a Mover closes
	firstPause   = time.Second     // between two attempts to move a message, and between two repairs
	longestPause = time.Minute
	fixEvery     = 5 * time.Second // between two repairs of the same bindings
)

// A Mover sends on messages that an exchange of ours could not route although their destination
// exists. Up to RabbitMQ 3.12 each restart of the broker misroutes up to 32 messages a queue.
//
// A message that has not waited for its whole delay waits for the rest. One that is due goes to its
// destination if that exists now. All others go to the unroutable queue, for an operator. Each is
// acknowledged after its confirm: after a lost connection it may arrive twice, with the same id.
//
// Each Delayer of a prefix has a Mover. The misrouted queue has a single active consumer, so one of
// them at a time gets its messages.
type Mover struct {
	cfg   MoverConfig
	stage Stage
	log   *slog.Logger

	again    pace.Pauses[string] // messages by id that wait again: one that comes back is not sent round at full speed
	refusing pace.Pauses[string] // destinations that refused all attempts: for a minute, others are not sent there
	fixed    pace.Pauses[gap]    // bindings that were made again
	warnings pace.Warnings
	foreign  sync.Mutex // messages without an id are published one at a time: their returns look alike

	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	work   context.Context // ended a while after
	abort  context.CancelFunc
	done   chan struct{}
}

// StartMover returns a Mover that consumes the misrouted queue until Close.
func StartMover(cfg MoverConfig) *Mover {
	to := cfg.Destinations
	m := &Mover{
		cfg: cfg, stage: to.stage, log: to.log.With("backend", to.backend, "queue", to.stage.Misrouted()), done: make(chan struct{}),
		again:    pace.Pauses[string]{First: firstPause, Longest: longestPause},
		refusing: pace.Pauses[string]{First: longestPause, Longest: longestPause},
		fixed:    pace.Pauses[gap]{First: fixEvery, Longest: fixEvery},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.work, m.abort = context.WithCancel(context.Background())
	go func() {
		defer close(m.done)
		broker.Consume(m.ctx, m.cfg.Control.Conn(), broker.Consuming{
			Queue: m.stage.Misrouted(), Prefetch: prefetch, Serve: m.serve,
			Failed: func(ctx context.Context, err error) {
				m.failed("cannot consume misrouted messages", err)
				if broker.Code(err) == amqp091.NotFound {
					m.redeclare(ctx)
				}
			},
		})
	}()
	return m
}

// Close stops taking messages and waits up to five seconds for those that are being published. The
// broker redelivers the others.
func (m *Mover) Close() {
	m.cancel()
	defer time.AfterFunc(drainFor, m.abort).Stop()
	<-m.done
	m.abort()
}

// serve settles the messages of a channel until it is lost or the Mover closes. The broker
// redelivers the rest.
func (m *Mover) serve(alive context.Context, messages <-chan amqp091.Delivery) {
	ctx, stop := context.WithCancel(m.work)
	defer stop()
	defer context.AfterFunc(alive, stop)()
	var working sync.WaitGroup
	defer working.Wait()
	for {
		select {
		case <-m.ctx.Done():
			return
		case d, ok := <-messages:
			if !ok {
				return
			}
			working.Go(func() { m.settle(ctx, &d) })
		}
	}
}

func (m *Mover) redeclare(ctx context.Context) {
	if err := m.cfg.Redeclare(ctx); err != nil {
		m.warn("cannot declare the queue for misrouted messages", "error", err)
	}
}

// failed logs errors that an operator must act on. The connection itself logs that the broker
// cannot be reached.
func (m *Mover) failed(text string, err error) {
	if broker.Code(err) == amqp091.AccessRefused {
		m.warn(text, "error", err)
		return
	}
	m.log.Debug(text, "error", err)
}

// warn logs each text at most once a minute, unless the Mover closes.
func (m *Mover) warn(text string, args ...any) {
	if m.ctx.Err() == nil {
		m.warnings.Warn(m.log, text, args...)
	}
}
