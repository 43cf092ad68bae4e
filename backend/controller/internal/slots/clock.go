package slots

import (
	"context"
	"sync"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A clock tells the moment, by the clocks of this process and what is known of the broker's.
type clock struct {
	broker *brokertime.Clock
	asking context.Context // once it has ended nobody asks for the time any more
	end    context.CancelFunc
	runs   sync.WaitGroup
}

func newClock(cfg brokertime.Config) *clock {
	c := &clock{broker: brokertime.New(cfg)}
	c.asking, c.end = context.WithCancel(context.Background())
	return c
}

// learn learns the broker's time until the clock is closed.
func (c *clock) learn(ctx context.Context) error {
	err := c.broker.Ask(ctx)
	if err == nil {
		c.runs.Go(func() { c.broker.Run(c.asking) })
	}
	return err
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

// until is how long after now a time is, which must have a monotonic reading. What now says of the
// broker's clock may have been read a while ago: then the message would be early without that.
func until(due time.Time, now leader.Now) time.Duration { return settle.Reading(due) - now.Mono }

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
