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
)

// A controller is a candidate for the lead of a shard.
type controller struct {
	wheel   *Wheel
	names   names // of its shard
	session *settle.Session
	gate    *broker.Gate
	clock   *clock
	serving atomic.Pointer[tenure]
	running sync.WaitGroup
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
