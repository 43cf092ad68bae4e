package rounds

import (
	"context"
	"sync"

	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// A controller is one at work: it consumes the intake.
type controller struct {
	wheel   *Wheel
	session *settle.Session
	pauses  *pauses // of destinations
	pulse   *pulse

	ctx     context.Context // ended by close
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func start(ctx context.Context, w *Wheel, s engine.Settings, e *engine.Engine) (*controller, error) {
	session, err := settle.Connect(ctx, s, e, 1)
	if err != nil {
		return nil, err
	}
	c := &controller{wheel: w, session: session, pauses: newPauses(), pulse: newPulse()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(func() { c.pulse.run(c.ctx) })
	c.running.Go(func() {
		broker.Consume(c.ctx, session.In, broker.Consuming{
			Queue: w.names.intake(), Prefetch: prefetch, Serve: c.serve, Failed: c.channelLost,
		})
	})
	return c, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (c *controller) close() {
	c.cancel()
	c.session.Close(&c.running)
}

func (c *controller) channelLost(ctx context.Context, err error) {
	c.session.Log.Warn("the controller lost its channel", "queue", c.wheel.names.intake(), "error", err)
	c.session.Redeclare(ctx)
}
