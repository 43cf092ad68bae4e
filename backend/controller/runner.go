package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
)

const drainTimeout = 10 * time.Second // for what is being published when a runner closes

// A runner is a controller at work. It consumes the intake and asks the broker over one connection,
// and publishes over another: an alarm blocks only the connections that publish.
type runner struct {
	blueprint blueprint
	user      string // the user of the publishing connection
	control   *broker.Control
	publisher *broker.Publisher
	keeper    *keeper.Keeper // of the topology
	pulse     *pulse
	log       *slog.Logger
	observer  delayer.Observer
	warned    atomic.Int64 // when warn last logged, by reading

	ctx    context.Context // ended by close
	cancel context.CancelFunc

	running sync.WaitGroup
}

// run starts a controller; close ends it.
func run(ctx context.Context, s engine.Settings, b blueprint, k *keeper.Keeper, clock *brokerClock) (*runner, error) {
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
		pulse: newPulse(), log: opts.Slog(), observer: s.Observer,
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.publisher = broker.NewPublisher(Name, k.Reconnected, out)
	r.running.Go(func() { r.pulse.run(r.ctx) })
	r.running.Go(func() {
		h := newHand(r, in, clock)
		r.running.Go(func() { h.changes.run(r.ctx) })
		h.run(r.ctx)
	})
	return r, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (r *runner) close() {
	r.cancel()
	done := make(chan struct{})
	go func() { r.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * drainTimeout): // the broker does not answer
	}
	r.control.Close()
	<-done
	r.publisher.Close()
}

// declareAgain declares the topology, of which something may be gone.
func (r *runner) declareAgain(ctx context.Context) {
	if err := r.keeper.Redeclare(ctx); err != nil && ctx.Err() == nil {
		r.warn("the controller cannot declare its queues", "error", err)
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
