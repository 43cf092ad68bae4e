package slots

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

type controller struct {
	wheel    *Wheel
	process  string // the name under which this process publishes
	session  *settle.Session
	asks     *broker.Publisher // whether a slot answers
	clock    *clock
	prefetch int // of the log, in the next tenure
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func start(ctx context.Context, s engine.Settings, d *Delayer, process string) (*controller, error) {
	const logAndCandidates = 2
	session, err := settle.Connect(ctx, s, d.Engine, len(d.wheel.rings.Slots())+logAndCandidates)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	c := &controller{wheel: d.wheel, process: process, session: session, asks: d.Publisher(), clock: d.clock, prefetch: leader.LogPrefetch, cancel: cancel}
	c.running.Go(func() { c.run(running) })
	c.running.Go(func() { c.beCounted(running) })
	return c, nil
}

// beCounted consumes the queue by which controllers are counted: of the log the broker counts the
// active consumer alone. A message that a stranger puts there stays.
func (c *controller) beCounted(ctx context.Context) {
	broker.Consume(ctx, c.session.In, broker.Consuming{
		Queue: c.wheel.candidates(), Prefetch: 1, Failed: func(context.Context, error) {},
		Serve: func(alive context.Context, _ <-chan amqp091.Delivery) {
			select {
			case <-alive.Done():
			case <-ctx.Done():
			}
		},
	})
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (c *controller) close() {
	c.cancel()
	c.session.Close(&c.running)
}

const longestPause = 5 * time.Second // between two tenures

func (c *controller) run(ctx context.Context) {
	pause := pace.Backoff{First: 100 * time.Millisecond, Longest: longestPause}
	for {
		began := time.Now()
		err := c.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		switch err.Error() {
		case leader.Renews:
			continue
		case leader.Overfull:
			c.prefetch = max(leader.LeastPrefetch, c.prefetch/4)
		default:
			c.prefetch = min(2*c.prefetch, leader.LogPrefetch)
		}
		c.session.Log.Warn("the controller has lost its queues; it takes them again", "error", err)
		c.session.Redeclare(ctx)
		if time.Since(began) > longestPause {
			pause.Reset()
		}
		if pace.Sleep(ctx, pause.Failed()) != nil {
			return
		}
	}
}
