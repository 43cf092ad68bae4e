// Package tenure says whether the messages of a channel are still those of the controller that
// consumes it. The broker gives them to another one while this process, or its machine, is stopped.
package tenure

import (
	"context"
	"sync"
	"time"
)

// A Pulse counts the pauses in which this process did not run. It is safe for concurrent use.
type Pulse struct {
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

// NewPulse returns a Pulse that Run lets beat.
func NewPulse() *Pulse { return &Pulse{last: time.Now()} }

// count returns how many pauses there were, up to this moment.
func (p *Pulse) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.last) > pauseAfter {
		p.pauses++
	}
	p.last = now
	return p.pauses
}

// Run beats until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
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

// A Tenure is of one channel. It is safe for concurrent use.
type Tenure struct {
	pulse *Pulse
	ask   func() error

	mu    sync.Mutex
	known int // pauses after which the channel has answered
}

// New returns the Tenure of a channel that is open now. ask makes a round trip on it.
func New(p *Pulse, ask func() error) *Tenure { return &Tenure{pulse: p, ask: ask, known: p.count()} }

// Confirm returns an error if the process was paused and the channel has been lost since. Call it
// right before a message is published. If the process is paused after that, and for as long as the
// broker waits for a heartbeat, the message arrives twice.
func (t *Tenure) Confirm() error {
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
