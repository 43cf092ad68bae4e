package slots

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A controller is a candidate for the lead. It consumes over one connection and publishes over another:
// an alarm blocks only the connections that publish.
type controller struct {
	wheel     *Wheel
	in        *broker.Conn
	gate      *broker.Gate
	control   *broker.Control // the engine's
	publisher *broker.Publisher
	settler   *settle.Settler
	keeper    *keeper.Keeper // of the topology
	clock     *clock
	log       *slog.Logger
	observer  delayer.Observer
	backend   string
	warned    atomic.Int64 // when warn last logged, by [stamp.Reading]

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// start starts a controller; close ends it.
func start(ctx context.Context, w *Wheel, s engine.Settings, e *engine.Engine, knows *clock) (*controller, error) {
	opts := s.BrokerOptions("controller")
	gate := broker.NewGate()
	opts.Gate = gate
	in, err := broker.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	out, err := broker.Dial(ctx, s.BrokerOptions("controller publish"))
	if err != nil {
		in.Close()
		return nil, err
	}
	c := &controller{
		wheel: w, in: in, gate: gate, control: e.Control(), publisher: broker.NewPublisher(s.Backend, e.Keeper().Reconnected, out),
		keeper: e.Keeper(), clock: knows, log: opts.Slog(), observer: s.Observer, backend: s.Backend,
	}
	c.settler = &settle.Settler{
		Backend: s.Backend, Stage: s.Stage(), User: in.User(), Publisher: c.publisher, Keeper: c.keeper,
		Objects: objects.Of(c.control, s.Backend), Observer: s.Observer,
	}
	running, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.running.Go(func() { c.run(running) })
	return c, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (c *controller) close() {
	c.cancel()
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * drainTimeout): // the broker does not answer
	}
	c.in.Close()
	<-done
	c.publisher.Close()
}

const (
	firstPause   = 100 * time.Millisecond // between two tenures
	longestPause = 5 * time.Second
)

// run serves one tenure after the other, until ctx ends.
func (c *controller) run(ctx context.Context) {
	pause := firstPause
	for {
		began := time.Now()
		err := c.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("the controller has lost its queues; it takes them again", "error", err)
		if err := c.keeper.Redeclare(ctx); err != nil && ctx.Err() == nil {
			c.warn("the controller cannot declare its queues", "error", err)
		}
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// warn logs at most once a second: thousands of messages often have the same problem.
func (c *controller) warn(text string, args ...any) {
	now := int64(stamp.Reading(time.Now()))
	last := c.warned.Load()
	if now-last >= int64(time.Second) && c.warned.CompareAndSwap(last, now) {
		c.log.Warn(text, args...)
	}
}
