// Package pace says when to try again: pauses that double, pauses for each destination, warnings at
// most once a minute, and signals.
package pace

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Doubled returns the pause after so many failures in a row: first, twice that and so on, at most
// longest. After no failure it is 0.
func Doubled(first, longest time.Duration, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	pause := first
	for ; failures > 1 && pause < longest; failures-- {
		pause *= 2
	}
	return min(pause, longest)
}

// Jitter returns a random duration between half of d and d: processes that failed together should
// not try again together.
func Jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// A Backoff counts the failures of one thing in a row. Its zero value, with First and Longest set,
// has not failed. It is not safe for concurrent use.
type Backoff struct {
	First, Longest time.Duration // the pauses after the first failure, and after many
	failures       int
}

// Failed notes a failure and returns how long to wait: a pause that doubles, less up to half of it
// at random.
func (b *Backoff) Failed() time.Duration {
	b.failures++
	return Jitter(Doubled(b.First, b.Longest, b.failures))
}

// Reset begins anew with the first pause.
func (b *Backoff) Reset() { b.failures = 0 }

// Sleep waits for d. If ctx ends before that it returns its error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A Signal wakes the goroutine that receives from it. Signals that nobody has received yet are one.
type Signal chan struct{}

// NewSignal returns a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set wakes the receiver, now or when it next receives. It does not block.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Warnings logs each text at most once a minute: many messages often have the same problem, and it
// must not hide another. The zero value is ready. It is safe for concurrent use.
type Warnings struct {
	last sync.Map // the time of the last line, by text
}

// Warn logs a warning, unless its text was logged within the last minute.
func (w *Warnings) Warn(log *slog.Logger, text string, args ...any) {
	now := time.Now()
	last, before := w.last.LoadOrStore(text, now)
	if !before || now.Sub(last.(time.Time)) >= time.Minute && w.last.CompareAndSwap(text, last, now) {
		log.Warn(text, args...)
	}
}

// mostPausing bounds the memory of Pauses. When it is reached, destinations that do not pause any
// more are forgotten; if that frees none, further ones do not pause.
const mostPausing = 10_000

// Pauses leaves each of many destinations alone for a while after it failed. Its zero value, with
// First and Longest set, knows of no failure. Its methods are safe for concurrent use, and take the
// time from the caller.
type Pauses[K comparable] struct {
	First, Longest time.Duration

	mu    sync.Mutex
	of    map[K]*pausing
	swept time.Time // when those were last forgotten that do not pause any more
}

type pausing struct {
	failures int
	until    time.Time
}

// Failed notes a failure of a destination: it pauses, twice as long as the last time. Failures
// during a pause do not prolong it: those attempts began before it.
func (p *Pauses[K]) Failed(k K, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of[k]
	switch {
	case at == nil:
		if at = p.add(k, now); at == nil {
			return
		}
	case now.Before(at.until):
		return
	}
	at.failures++
	at.until = now.Add(Doubled(p.First, p.Longest, at.failures))
}

func (p *Pauses[K]) add(k K, now time.Time) *pausing {
	if p.of == nil {
		p.of = map[K]*pausing{}
	}
	if len(p.of) >= mostPausing && now.Sub(p.swept) >= p.First {
		p.swept = now
		for name, at := range p.of {
			if !now.Before(at.until) {
				delete(p.of, name)
			}
		}
	}
	if len(p.of) >= mostPausing {
		return nil
	}
	at := &pausing{}
	p.of[k] = at
	return at
}

// Succeeded forgets the failures of a destination.
func (p *Pauses[K]) Succeeded(k K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, k)
}

// Wait returns for how long a destination pauses still, and how often it has failed in a row. After
// its pause, the first is 0 and the second is not.
func (p *Pauses[K]) Wait(k K, now time.Time) (pause time.Duration, failures int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of[k]
	if at == nil {
		return 0, 0
	}
	return max(at.until.Sub(now), 0), at.failures
}
