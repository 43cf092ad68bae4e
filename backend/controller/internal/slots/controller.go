package slots

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// A controller is a candidate for the lead of a shard.
type controller struct {
	wheel   *Wheel
	names   names // of its shard
	session *settle.Session
	gate    *broker.Gate
	clock   *clock
	serving atomic.Pointer[tenure]

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// start starts a controller; close ends it.
func start(ctx context.Context, w *Wheel, n names, s engine.Settings, e *engine.Engine, knows *clock) (*controller, error) {
	gate := broker.NewGate()
	session, err := settle.Connect(ctx, s, e, gate)
	if err != nil {
		return nil, err
	}
	c := &controller{wheel: w, names: n, session: session, gate: gate, clock: knows}
	running, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.running.Go(func() { c.run(running) })
	return c, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (c *controller) close() {
	c.cancel()
	c.session.Close(&c.running)
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
		if errors.Is(err, errHandedOver) {
			pause = firstPause
		} else {
			c.session.Log.Warn("the controller has lost its queues; it takes them again", "error", err)
			c.session.Redeclare(ctx)
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
