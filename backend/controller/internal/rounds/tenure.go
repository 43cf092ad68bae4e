package rounds

import (
	"context"
	"sync"
	"time"
)

// A pulse counts the pauses in which this process did not run. It is safe for concurrent use.
type pulse struct {
	mu     sync.Mutex
	last   time.Time
	pauses int
}

const (
	pulseEvery = time.Second
	// pauseAfter is less than a broker waits for a heartbeat. A client's heartbeat is 10 s, and the
	// broker waits for two.
	pauseAfter = 5 * time.Second
)

func newPulse() *pulse { return &pulse{last: time.Now()} }

// count returns how many pauses there were, up to this moment.
func (p *pulse) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.last) > pauseAfter {
		p.pauses++
	}
	p.last = now
	return p.pauses
}

func (p *pulse) run(ctx context.Context) {
	beat := time.NewTicker(pulseEvery)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			p.count()
		case <-ctx.Done():
			return
		}
	}
}

// A tenure says whether the messages of a channel are still those of the controller that consumes
// it. The broker gives them to another one while this process, or its machine, is stopped. It is
// safe for concurrent use.
type tenure struct {
	pulse *pulse
	ask   func() error

	mu    sync.Mutex
	known int // pauses after which the channel has answered
}

// newTenure returns that of a channel that is open now. ask makes a round trip on it.
func newTenure(p *pulse, ask func() error) *tenure {
	return &tenure{pulse: p, ask: ask, known: p.count()}
}

// confirm returns an error if the process was paused and the channel has been lost since. Call it
// right before a message is published. If the process is paused after that, and for as long as the
// broker waits for a heartbeat, the message arrives twice.
func (t *tenure) confirm() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		pauses := t.pulse.count()
		if pauses == t.known {
			return nil
		}
		if err := t.ask(); err != nil {
			return err
		}
		t.known = pauses
	}
}
