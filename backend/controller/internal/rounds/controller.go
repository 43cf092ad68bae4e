package rounds

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/tenure"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A controller is one at work. It consumes the intake and asks the broker over one connection, and
// publishes over another: an alarm blocks only the connections that publish.
type controller struct {
	wheel     *Wheel
	settler   *settle.Settler
	pauses    *settle.Pauses // of destinations
	control   *broker.Control
	publisher *broker.Publisher
	keeper    *keeper.Keeper // of the topology
	pulse     *tenure.Pulse
	log       *slog.Logger
	observer  delayer.Observer
	backend   string
	warned    atomic.Int64 // when warn last logged, by [stamp.Reading]

	ctx    context.Context // ended by close
	cancel context.CancelFunc

	running sync.WaitGroup
}

// start starts a controller; close ends it.
func start(ctx context.Context, w *Wheel, s engine.Settings, k *keeper.Keeper) (*controller, error) {
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
	c := &controller{
		wheel: w, control: broker.NewControl(in), publisher: broker.NewPublisher(s.Backend, k.Reconnected, out), keeper: k,
		pauses: settle.NewPauses(), pulse: tenure.NewPulse(), log: opts.Slog(), observer: s.Observer, backend: s.Backend,
	}
	c.settler = &settle.Settler{
		Backend: s.Backend, Stage: s.Stage(), User: in.User(), Publisher: c.publisher, Keeper: k,
		Objects: objects.Of(c.control, s.Backend), Observer: s.Observer,
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(func() { c.pulse.Run(c.ctx) })
	c.running.Go(func() {
		broker.Consume(c.ctx, in, broker.Consuming{
			Queue: w.names.intake(), Prefetch: prefetch, Serve: c.serve, Failed: c.channelLost,
		})
	})
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
	c.control.Close()
	<-done
	c.publisher.Close()
}

// channelLost declares the topology again: the intake may be gone.
func (c *controller) channelLost(ctx context.Context, err error) {
	c.log.Warn("the controller lost its channel", "queue", c.wheel.names.intake(), "error", err)
	if err := c.keeper.Redeclare(ctx); err != nil && ctx.Err() == nil {
		c.warn("the controller cannot declare its queues", "error", err)
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
