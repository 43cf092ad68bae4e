package slots

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// A clock tells the moment, by the clocks of this process and what is known of the broker's. It is
// opened after the engine, whose connections it uses.
type clock struct {
	broker atomic.Pointer[brokertime.Clock]
	vain   atomic.Int64    // when it was last waited for in vain, by [settle.Reading]
	asking context.Context // once it has ended nobody asks for the time any more
	close  context.CancelFunc
}

func newClock() *clock {
	c := new(clock)
	c.asking, c.close = context.WithCancel(context.Background())
	return c
}

func (c *clock) now() leader.Now {
	at := time.Now()
	now := leader.Now{Mono: settle.Reading(at)}
	if known := c.broker.Load(); known != nil {
		now.Clock, now.Known = known.Read()
	}
	return now
}

// used says that there are messages: for a while the time is kept well known.
func (c *clock) used() {
	if known := c.broker.Load(); known != nil {
		known.Use()
	}
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
	c.used()
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

const (
	// briefly is how long a message waits for the broker's time before it is written without a due
	// time, and another within notAgainFor of it not at all.
	briefly     = time.Second
	notAgainFor = 5 * time.Second
)

// waitBriefly is wait for one of many messages.
func (c *clock) waitBriefly(ctx context.Context) leader.Now {
	c.used()
	now := c.now()
	vain := time.Duration(c.vain.Load())
	if now.Known || vain != 0 && now.Mono-vain < notAgainFor {
		return now
	}
	ctx, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	if now = c.wait(ctx); !now.Known {
		c.vain.Store(int64(now.Mono))
	}
	return now
}

// open learns the broker's time until it is stopped.
func (c *clock) open(ctx context.Context, w *Wheel, s engine.Settings, e *engine.Engine) (stop func(), err error) {
	shared := w.names.shared()
	shared.Restore = e.Keeper().Redeclare
	asks := brokertime.New(brokertime.Config{
		Backend: s.Backend, Prefix: s.Prefix, Logger: s.BrokerOptions("").Slog(), Control: e.Control(), Shared: shared, Publish: e.Publisher().PublishDirect,
	})
	if err := asks.Ask(ctx); err != nil {
		return nil, err
	}
	c.broker.Store(asks)
	var running sync.WaitGroup
	running.Go(func() { asks.Run(c.asking) })
	return func() { c.close(); running.Wait() }, nil
}
