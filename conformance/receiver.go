package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A receiver keeps what arrived in a queue.
type receiver struct {
	queue string

	mu       sync.Mutex
	arrivals []Arrival
	byID     map[string][]Arrival
	changed  chan struct{} // closed and replaced at each arrival
}

func newReceiver(queue string) *receiver {
	return &receiver{queue: queue, byID: map[string][]Arrival{}, changed: make(chan struct{})}
}

func (b *receiver) add(a Arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrivals = append(b.arrivals, a)
	b.byID[a.MessageId] = append(b.byID[a.MessageId], a)
	close(b.changed)
	b.changed = make(chan struct{})
}

// all returns what arrived until now, in order.
func (b *receiver) all() []Arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.arrivals)
}

// of returns the arrivals of one message.
func (b *receiver) of(id string) []Arrival {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.byID[id])
}

// await waits until every one of ids has arrived, or until deadline, and returns those that have
// not.
func (b *receiver) await(ids []string, deadline time.Time) (missing []string) {
	return b.awaitOr(nil, ids, deadline)
}

// awaitOr is await for messages that may arrive in other instead; nil is nowhere.
func (b *receiver) awaitOr(other *receiver, ids []string, deadline time.Time) (missing []string) {
	arrived := func(id string) bool { return b.has(id) || other.has(id) }
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	next := 0 // all before it have arrived
	for {
		here, there := b.change(), other.change() // before looking, so that no arrival is overlooked
		for next < len(ids) && arrived(ids[next]) {
			next++
		}
		if next == len(ids) {
			return nil
		}
		select {
		case <-here:
		case <-there:
		case <-timer.C:
			return slices.DeleteFunc(slices.Clone(ids), arrived)
		}
	}
}

// has says whether a message has arrived.
func (b *receiver) has(id string) bool { return len(b.of(id)) > 0 }

// change is closed at the next arrival.
func (b *receiver) change() <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// await waits for the messages of outs, and ends the case if one is missing.
func (t *trial) await(in *receiver, outs []outcome) {
	t.Helper()
	t.awaitFate(in, outs, fate{})
}

// expected is the ids of outs, and when the last of them is due.
func (t *trial) expected(outs []outcome) (ids []string, last time.Time) {
	last = time.Now()
	for _, o := range outs {
		ids = append(ids, o.id())
		if due := o.before.Add(t.effective(o.delay)); due.After(last) {
			last = due
		}
	}
	return ids, last
}

// sentinel publishes a message behind all that has been published, to each of these queues, and waits
// for them: what has not arrived by then is not expected to.
func (t *trial) sentinel(queues ...*receiver) {
	t.Helper()
	jobs := make([]job, len(queues))
	for i, in := range queues {
		jobs[i] = to(in, t.name(sentinelMark), t.short())
	}
	for i, o := range t.mustPublish(jobs...) {
		t.await(queues[i], []outcome{o})
	}
}

const sentinelMark = "sentinel"

func isSentinel(id string) bool { return strings.HasSuffix(id, sentinelMark) }

func deadlineIn(d time.Duration) time.Time { return time.Now().Add(d) }

// exactly checks that every message of outs arrived in the queue once, none of them early, and
// nothing else did.
func (t *trial) exactly(in *receiver, outs []outcome) {
	t.Helper()
	t.await(in, outs)
	t.sentinel(in)
	t.only(in, outs, false)
}

// only checks that nothing arrived in the queue until now but the messages of outs; none of them
// early, and none twice unless again says that it may, as after a broker's failure.
func (t *trial) only(in *receiver, outs []outcome, again bool) {
	t.Helper()
	known := map[string]outcome{}
	for _, o := range outs {
		known[o.id()] = o
	}
	var extra, twice, early []string
	seen := map[string]int{}
	for _, a := range in.all() {
		o, ok := known[a.MessageId]
		if !ok {
			if !isSentinel(a.MessageId) {
				extra = append(extra, a.MessageId)
			}
			continue
		}
		if seen[a.MessageId]++; seen[a.MessageId] == 2 && !again {
			twice = append(twice, a.MessageId)
		}
		if by := o.before.Add(o.delay).Sub(a.At); by > 0 {
			early = append(early, fmt.Sprintf("%s by %v of %v", a.MessageId, by, o.delay))
		}
	}
	t.none(in, "not expected", extra)
	t.none(in, "delivered more than once", twice)
	t.none(in, "early", early)
}

// none fails the case if there is something in a list that should be empty.
func (t *trial) none(in *receiver, what string, ids []string) {
	t.Helper()
	if len(ids) > 0 {
		t.errorf("queue %s: %s: %s", in.queue, what, list(ids))
	}
}

// list prints how many there are, and as many of them as one can read.
func list(ids []string) string {
	const readable = 20
	var shown []string
	for _, id := range ids[:min(readable, len(ids))] {
		shown = append(shown, abridged(id))
	}
	s := fmt.Sprintf("%d: %s", len(ids), strings.Join(shown, ", "))
	if len(ids) > readable {
		s += ", …"
	}
	return s
}
