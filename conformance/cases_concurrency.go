package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
)

// concurrency publishes as publishAll does, by many goroutines.
func concurrency(t *trial) {
	const messages = 512
	receivers := []*receiver{t.queue(t.name("queue")), t.queue(t.name("queue")), t.queue(t.name("queue"))}
	delays := t.mixed(messages)
	parts := make([][]outcome, len(receivers))
	for i, o := range t.mustPublish(jobs(messages, "message", func(i int, id string) job {
		return to(receivers[i%len(receivers)], id, delays[i])
	})...) {
		parts[i%len(receivers)] = append(parts[i%len(receivers)], o)
	}
	for i, in := range receivers {
		t.exactly(in, parts[i])
	}
}

func twoDelayers(t *trial) {
	const messages = 25
	other := t.open()
	defer func() { _ = other.Close() }()
	in := t.queue(t.name("queue"))
	outs := t.mustPublish(jobs(messages, "one", func(_ int, id string) job { return to(in, id, t.short()) })...)
	for _, j := range jobs(messages, "other", func(_ int, id string) job { return to(in, id, t.short()) }) {
		outs = append(outs, publishBy(t.ctx, other, j))
	}
	t.allStored(outs)
	if err := other.Close(); err != nil {
		t.errorf("Close of the second Delayer returned %v", err)
	}
	outs = append(outs, t.mustPublish(to(in, "after the other was closed", t.short()))...)
	t.exactly(in, outs)
}

func ctxEndedBefore(t *trial) {
	in := t.queue(t.name("queue"))
	canceled, cancel := context.WithCancel(t.ctx)
	cancel()
	late, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, j := range jobs(10, "never", func(i int, id string) job { return to(in, id, time.Duration(i%2)*t.short()) }) {
		for want, ctx := range map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: late} {
			o := publishBy(ctx, t.d, j)
			t.refused(o, delayer.ErrNotSent)
			if !errors.Is(o.err, want) {
				t.errorf("message %s: Publish returned %v, want an error that is also %q", o.id(), o.err, want)
			}
		}
	}
	t.exactly(in, nil)
}

func ctxEndedDuring(t *trial) {
	const messages = 200
	in := t.queue(t.name("queue"))
	warm := t.mustPublish(to(in, "warm", t.short()))
	usual := max(warm[0].after.Sub(warm[0].before), 500*time.Microsecond)
	outs := make([]outcome, messages)
	var wg sync.WaitGroup
	room := make(chan struct{}, 8)
	for i, j := range jobs(messages, "during", func(_ int, id string) job { return to(in, id, t.short()) }) {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(t.ctx, usual*time.Duration(i%40)/20)
			defer cancel()
			outs[i] = publishBy(ctx, t.d, j)
		})
	}
	wg.Wait()
	for _, o := range outs {
		if o.err == nil {
			continue
		}
		if !errors.Is(o.err, context.DeadlineExceeded) || !errors.Is(o.err, delayer.ErrNotSent) && !errors.Is(o.err, delayer.ErrUnknown) {
			t.errorf("message %s: Publish returned %v, want an error that is %q, and %q or %q",
				o.id(), o.err, context.DeadlineExceeded, delayer.ErrNotSent, delayer.ErrUnknown)
		}
		// generous: Publish must obey its ctx, but need not be fast
		if took := o.after.Sub(o.before); took > 2*usual+10*time.Second {
			t.errorf("message %s: Publish returned only after %v", o.id(), took)
		}
	}
	t.truthful(in, slices.Concat(outs, warm), fate{})
}

// publishers publish without pause, each one message or batch after the other, until they are stopped.
type publishers struct {
	t      *trial
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ending atomic.Bool

	mu     sync.Mutex
	outs   []outcome
	stored int
}

// startPublishers starts n of them. publish is told which it is called by.
func startPublishers(t *trial, n int, publish func(ctx context.Context, publisher int, id string) []outcome) *publishers {
	p := &publishers{t: t}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(t.ctx)
	for g := range n {
		p.wg.Go(func() {
			for i := 0; !p.ending.Load() && ctx.Err() == nil; i++ {
				limited, cancel := context.WithTimeout(ctx, t.h.Patience)
				outs := publish(limited, g, sprintf("publisher-%02d-%05d", g, i))
				cancel()
				if p.note(outs) == 0 {
					time.Sleep(10 * time.Millisecond) // there may be no broker
				}
			}
		})
	}
	return p
}

func (p *publishers) note(outs []outcome) (stored int) {
	for _, o := range outs {
		if o.err == nil {
			stored++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outs, p.stored = append(p.outs, outs...), p.stored+stored
	return stored
}

// awaitStored waits until n more messages have been stored.
func (p *publishers) awaitStored(n int) {
	p.t.Helper()
	end := time.Now().Add(2 * p.t.h.Patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	for most := p.stored + n; p.stored < most; p.mu.Lock() {
		if time.Now().After(end) {
			p.cancel() // a Publish may hang
			var last error
			if n := len(p.outs); n > 0 {
				last = p.outs[n-1].err
			}
			p.t.failf("publishing does not work (again): of %d messages %d were stored, and the last result is %v",
				len(p.outs), p.stored, last)
		}
		p.mu.Unlock()
		time.Sleep(lookEvery)
	}
}

func (p *publishers) stop() []outcome {
	p.ending.Store(true)
	p.wg.Wait()
	p.cancel()
	return p.outs
}
