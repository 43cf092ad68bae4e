package slots

import (
	"context"
	"sync"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// A clock tells the moment, by the clocks of this process and what is known of the broker's.
type clock struct {
	broker *brokertime.Clock
	asking context.Context // once it has ended nobody asks for the time any more
	end    context.CancelFunc
	runs   sync.WaitGroup
}

// openClock learns the broker's time until the clock is closed, over the connections of an engine.
func openClock(ctx context.Context, w *Wheel, s engine.Settings, e *engine.Engine) (*clock, error) {
	shared := w.names.shared()
	shared.Restore = e.Keeper().Redeclare
	c := newClock(brokertime.Config{
		Backend: s.Backend, Prefix: s.Prefix, Logger: s.BrokerOptions("").Slog(), Control: e.Control(), Shared: shared, Publish: e.Publisher().PublishDirect,
	})
	if err := c.broker.Ask(ctx); err != nil {
		return nil, err
	}
	c.runs.Go(func() { c.broker.Run(c.asking) })
	return c, nil
}

func newClock(cfg brokertime.Config) *clock {
	c := &clock{broker: brokertime.New(cfg)}
	c.asking, c.end = context.WithCancel(context.Background())
	return c
}

func (c *clock) close() {
	c.end()
	c.runs.Wait()
}

func (c *clock) now() leader.Now {
	now := leader.Now{Mono: settle.Reading(time.Now())}
	now.Clock, now.Known = c.broker.Read()
	return now
}

const lookAgain = 50 * time.Millisecond

// until is how long after now a time is. What passes between two readings of the time would otherwise
// make a message early: due is what is left, from what now says of the broker's clock.
func until(due time.Time, now leader.Now) time.Duration {
	at := time.Now()
	return due.Sub(at.Add(now.Mono - settle.Reading(at)))
}

// wait returns once the broker's time is known, or ctx ends, or the clock is closed: then it is
// not.
func (c *clock) wait(ctx context.Context) leader.Now {
	for {
		now := c.now()
		if now.Known {
			return now
		}
		select {
		case <-time.After(lookAgain):
		case <-c.asking.Done():
			return now
		case <-ctx.Done():
			return now
		}
	}
}
