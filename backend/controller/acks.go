package controller

import (
	"context"
	"slices"
	"sync"
	"time"
)

// acks acknowledges the messages of one channel. Their tags count from 1. An acknowledgement of a
// prefix costs the broker a fraction of what as many single ones cost, so what is done waits for
// what came before it; but not for longer than ackWithin, since it would be delivered again if this
// process died. A few are not worth that risk: they wait for ackSoon.
type acks struct {
	ack  func(tag uint64, multiple bool)
	wake chan struct{} // buffered: something is done

	mu     sync.Mutex
	first  uint64          // the first tag that is not done
	behind map[uint64]bool // done, but not in the prefix; true: acknowledged
	lone   int             // of those, how many are not acknowledged
	order  []finished      // the first done first; some may be acknowledged by now
}

// finished is a message that is stored elsewhere.
type finished struct {
	tag   uint64
	since time.Time
}

const (
	ackWithin = 4 * time.Second // longer than a slot of seconds lasts: there prefixes suffice
	ackSoon   = 250 * time.Millisecond
	ackFew    = 256
	ackPause  = 2 * time.Millisecond // more may be done meanwhile
)

func newAcks(ack func(tag uint64, multiple bool)) *acks {
	return &acks{ack: ack, wake: make(chan struct{}, 1), first: 1, behind: map[uint64]bool{}}
}

// done notes that a message is stored elsewhere.
func (a *acks) done(tag uint64) {
	a.mu.Lock()
	a.behind[tag] = false
	a.lone++
	a.order = append(a.order, finished{tag, time.Now()})
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run acknowledges until ctx ends, and then what is done by then.
func (a *acks) run(ctx context.Context) {
	late := time.NewTicker(ackSoon)
	defer late.Stop()
	for {
		select {
		case <-a.wake:
			a.flushPrefix()
		case <-late.C:
			a.flush(time.Now())
		case <-ctx.Done():
			a.flush(time.Now().Add(2 * ackWithin))
			return
		}
		select {
		case <-time.After(ackPause):
		case <-ctx.Done():
		}
	}
}

// flushPrefix acknowledges the prefix.
func (a *acks) flushPrefix() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ackPrefix()
}

// flush acknowledges the prefix, and what has waited for too long.
func (a *acks) flush(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ackPrefix()
	for _, tag := range a.overdue(now) {
		a.ack(tag, false)
		a.behind[tag] = true
		a.lone--
	}
}

func (a *acks) ackPrefix() {
	if tag := a.prefix(); tag != 0 {
		a.ack(tag, true)
	}
}

// prefix returns the tag up to which all is done, 0 if there is nothing new. The broker closes the
// channel if that tag was acknowledged before.
func (a *acks) prefix() (last uint64) {
	for {
		acked, done := a.behind[a.first]
		if !done {
			return last
		}
		if !acked {
			last = a.first
			a.lone--
		}
		delete(a.behind, a.first)
		a.first++
	}
}

// overdue returns, in order, the tags that have waited for too long.
func (a *acks) overdue(now time.Time) (tags []uint64) {
	within := ackWithin
	if a.lone <= ackFew {
		within = ackSoon
	}
	for len(a.order) > 0 && (a.lone == 0 || now.Sub(a.order[0].since) >= within) {
		tag := a.order[0].tag
		if acked, is := a.behind[tag]; is && !acked {
			tags = append(tags, tag)
		}
		a.order = a.order[1:]
	}
	slices.Sort(tags)
	return tags
}
