package conformance

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// publishers publish without pause, each one message after the other, until they are stopped.
type publishers struct {
	t      *trial
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	stored atomic.Int64
	ending atomic.Bool

	mu      sync.Mutex
	outs    []outcome
	changed chan struct{}
}

// startPublishers starts n goroutines that publish messages of ids of their own.
func startPublishers(t *trial, n int, publish func(ctx context.Context, id string) outcome) *publishers {
	p := &publishers{t: t, changed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(t.ctx)
	for g := range n {
		p.wg.Go(func() {
			for i := 0; !p.ending.Load() && p.ctx.Err() == nil; i++ {
				p.one(publish, sprintf("publisher-%02d-%05d", g, i))
			}
		})
	}
	return p
}

func (p *publishers) one(publish func(context.Context, string) outcome, id string) {
	ctx, cancel := context.WithTimeout(p.ctx, p.t.h.Patience)
	defer cancel()
	o := publish(ctx, id)
	p.mu.Lock()
	p.outs = append(p.outs, o)
	if o.err == nil {
		p.stored.Add(1)
		close(p.changed)
		p.changed = make(chan struct{})
	}
	p.mu.Unlock()
	if o.err != nil {
		time.Sleep(10 * time.Millisecond) // As an application would: not to spin while there is no broker.
	}
}

// awaitStored waits until n more messages have been stored.
func (p *publishers) awaitStored(n int64) {
	p.t.Helper()
	timer := time.NewTimer(2 * p.t.h.Patience)
	defer timer.Stop()
	target := p.stored.Load() + n
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if p.stored.Load() >= target {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			p.ending.Store(true)
			p.cancel() // And not wait for a Publish that may hang for ever.
			p.t.failf("publishing does not work (again): %s", p.last())
		}
	}
}

// last tells how the latest Publish ended.
func (p *publishers) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.outs) == 0 {
		return "no Publish has returned"
	}
	return sprintf("the last Publish returned %v", p.outs[len(p.outs)-1].err)
}

// stop lets every Publish end, and returns all that was published.
func (p *publishers) stop() []outcome {
	p.ending.Store(true)
	p.wg.Wait()
	p.cancel()
	return p.outs
}
