package controller

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/keeper"
)

const (
	mostHeld      = 8192     // messages in memory at a time
	mostHeldBytes = 64 << 20 // and their bodies

	// prefetch leaves room for messages that pass through while the memory is full.
	prefetch = mostHeld + 1024

	drainTimeout = 10 * time.Second // for what is being published when a runner closes
)

// A runner is a controller at work. It consumes the intake and asks the broker over one connection,
// and publishes over another: an alarm blocks only the connections that publish.
type runner struct {
	blueprint blueprint
	user      string // the user of the publishing connection
	control   *broker.Control
	publisher *broker.Publisher
	keeper    *keeper.Keeper // of the topology
	log       *slog.Logger
	observer  delayer.Observer
	warned    atomic.Int64 // when warn last logged, by reading

	ctx    context.Context // ended by close
	cancel context.CancelFunc
	done   chan struct{}
}

// run starts a controller; close ends it.
func run(ctx context.Context, s engine.Settings, b blueprint, k *keeper.Keeper) (*runner, error) {
	opts := s.BrokerOptions("controller")
	in, err := broker.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	out, err := broker.Dial(ctx, s.BrokerOptions("controller publish"))
	if err != nil {
		in.Close()
		return nil, err
	}
	r := &runner{
		blueprint: b, user: in.User(), control: broker.NewControl(in), keeper: k,
		log: opts.Slog(), observer: s.Observer, done: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.publisher = broker.NewPublisher(Name, k.Doubt, out)
	go func() {
		defer close(r.done)
		broker.Consume(r.ctx, in, broker.Consuming{
			Queue: b.names.intake(), Prefetch: prefetch, Serve: r.serve, Failed: r.channelLost,
		})
	}()
	return r, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (r *runner) close() {
	r.cancel()
	select {
	case <-r.done:
	case <-time.After(2 * drainTimeout): // the broker does not answer
	}
	r.control.Close()
	<-r.done
	r.publisher.Close()
}

// channelLost declares the topology again: the intake may be gone.
func (r *runner) channelLost(ctx context.Context, err error) {
	r.log.Warn("the controller lost its channel", "queue", r.blueprint.names.intake(), "error", err)
	r.keeper.Doubt()
	if err := r.keeper.Ensure(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("the controller cannot declare its queues", "error", err)
	}
}

// warn logs at most once a second: thousands of messages often have the same problem.
func (r *runner) warn(text string, args ...any) {
	now := int64(reading(time.Now()))
	last := r.warned.Load()
	if now-last >= int64(time.Second) && r.warned.CompareAndSwap(last, now) {
		r.log.Warn(text, args...)
	}
}
