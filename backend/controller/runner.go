package controller

import (
	"context"
	"crypto/rand"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer/internal/broker"
)

const (
	mostHeld      = 8192     // messages in memory at a time
	mostHeldBytes = 64 << 20 // and their bodies

	// prefetch leaves room for messages that pass through while memory is full.
	prefetch = mostHeld + 1024

	drainTimeout = 10 * time.Second // for what is being published when a runner closes
)

// A runner is a controller at work: it consumes the intake queue over one connection and publishes over another.
type runner struct {
	blueprint blueprint
	user      string // that we are to the broker
	conn      *broker.Conn
	publisher *broker.Publisher
	declare   func(context.Context) error // the whole topology
	clock     *broker.Clock
	log       *slog.Logger

	stale      atomic.Bool   // the topology may be gone
	declaring  chan struct{} // held by whoever declares it again
	declared   time.Time     // when that was done last
	complained atomic.Int64  // when, in nanoseconds since clockStart

	ctx    context.Context // ended by close
	cancel context.CancelFunc
	done   chan struct{}
}

// run starts a controller; close ends it.
func run(ctx context.Context, opts broker.Options, b blueprint, declare func(context.Context) error) (*runner, error) {
	opts.Name = "delayer " + b.names.prefix + " controller"
	in, err := broker.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	opts.Name += " publish"
	out, err := broker.Dial(ctx, opts)
	if err != nil {
		in.Close()
		return nil, err
	}
	r := &runner{
		blueprint: b, user: in.User(), conn: in, declare: declare, log: opts.Slog(),
		clock:     broker.NewClock(out, b.names.clock(), b.names.clock()+"."+rand.Text()),
		declaring: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.publisher = broker.NewPublisher(Name, func() { r.stale.Store(true) }, out)
	go func() {
		defer close(r.done)
		broker.Consume(r.ctx, in, broker.Consuming{
			Queue: b.names.intake(), Prefetch: prefetch, Serve: r.serve, Failed: r.failed,
		})
	}()
	return r, nil
}

// close stops taking messages, waits for those that are being published, and hands back the others.
func (r *runner) close() {
	r.cancel()
	select {
	case <-r.done:
	case <-time.After(2 * drainTimeout): // the broker does not answer
	}
	r.conn.Close()
	<-r.done
	r.publisher.Close()
}

// failed is told that the consumer's channel was lost.
func (r *runner) failed(ctx context.Context, err error) {
	r.log.Warn("the controller lost its channel", "queue", r.blueprint.names.intake(), "error", err)
	r.stale.Store(true)
	if err := r.redeclare(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("the controller cannot declare its queues", "error", err)
	}
}

// redeclare makes the topology anew where it may be gone.
func (r *runner) redeclare(ctx context.Context) error {
	if !r.stale.Load() {
		return nil
	}
	const anyAge = math.MaxInt64
	return r.assure(ctx, anyAge)
}

// assure makes the topology anew where it may be gone or was declared longer than that ago, once for all who ask
// at the same time.
func (r *runner) assure(ctx context.Context, age time.Duration) error {
	select {
	case r.declaring <- struct{}{}:
		defer func() { <-r.declaring }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !r.stale.Load() && time.Since(r.declared) < age {
		return nil
	}
	r.stale.Store(false) // before, so that a loss meanwhile is not forgotten
	if err := r.declare(ctx); err != nil {
		r.stale.Store(true)
		return err
	}
	r.declared = time.Now()
	return nil
}

// complain logs, at most once a second: what is wrong with one message mostly is with thousands.
func (r *runner) complain(text string, args ...any) {
	now := int64(time.Since(clockStart))
	if last := r.complained.Load(); now-last >= int64(time.Second) && r.complained.CompareAndSwap(last, now) {
		r.log.Warn(text, args...)
	}
}
