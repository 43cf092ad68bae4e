package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/account"
)

type receiver struct {
	queue string

	mu       sync.Mutex
	arrivals []Arrival
	byID     map[string][]Arrival
}

func newReceiver(queue string) *receiver {
	return &receiver{queue: queue, byID: map[string][]Arrival{}}
}

func (b *receiver) add(a Arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrivals = append(b.arrivals, a)
	b.byID[a.MessageId] = append(b.byID[a.MessageId], a)
}

func (b *receiver) all() []Arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.arrivals)
}

func (b *receiver) of(id string) []Arrival {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.byID[id])
}

// lookEvery is how often the suite looks for what it waits for.
const lookEvery = 5 * time.Millisecond

// await waits until every one of ids has arrived, and returns those that have not after patience.
func (b *receiver) await(ids []string, patience time.Duration) (missing []string) {
	const none = 0
	return b.awaitOr(nil, ids, time.Now().Add(patience), none)
}

// awaitOr is await for messages that may arrive in other instead, unless that is nil. After the
// deadline it goes on for as long as another message arrives here within patience: where everything
// is slow, what comes late is not missing.
func (b *receiver) awaitOr(other *receiver, ids []string, deadline time.Time, patience time.Duration) (missing []string) {
	arrived := func(id string) bool { return b.has(id) || other.has(id) }
	next := 0 // all before it have arrived
	for seen := b.count(); ; time.Sleep(lookEvery) {
		for next < len(ids) && arrived(ids[next]) {
			next++
		}
		if n := b.count(); n > seen {
			seen = n
			if later := time.Now().Add(patience); later.After(deadline) {
				deadline = later
			}
		}
		if next == len(ids) || !time.Now().Before(deadline) {
			return slices.DeleteFunc(slices.Clone(ids[next:]), arrived)
		}
	}
}

// count is the number of messages that have arrived. One that comes twice counts once.
func (b *receiver) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.byID)
}

func (b *receiver) has(id string) bool { return len(b.of(id)) > 0 }

func (t *trial) await(in *receiver, outs []outcome) {
	t.Helper()
	t.awaitFate(in, outs, fate{})
}

// sentinel publishes one more message to each of these queues, and waits for them. What has not
// arrived by then will not arrive.
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

// exactly checks that every message of outs arrived in the queue once, none of them early, and
// nothing else did.
func (t *trial) exactly(in *receiver, outs []outcome) {
	t.Helper()
	t.await(in, outs)
	t.sentinel(in)
	t.only(in, outs, false)
}

// only checks that no other messages than outs have arrived in the queue, and none that Publish
// said was not stored. None may be early. With again, as after a broker's failure, some may come
// twice.
func (t *trial) only(in *receiver, outs []outcome, again bool) {
	t.Helper()
	a := account.New[string](t.began)
	for _, o := range outs {
		a.Ask(course{ID: o.id(), Asked: a.At(o.before), Delay: o.delay})
		a.Answer(o.id(), a.At(o.after), o.err)
	}
	for _, arrival := range in.all() {
		if !isSentinel(arrival.MessageId) {
			a.Arrive(arrival.MessageId, a.At(arrival.At))
		}
	}
	v := a.Verdict()
	id := func(m course) string { return m.ID }
	t.none(in, "not expected", v.Strangers, id)
	t.none(in, "arrived, though the error said that they were not stored", v.Untrue, func(m course) string {
		return sprintf("%s (%v)", m.ID, m.Err)
	})
	if !again {
		t.none(in, "delivered more than once", v.Twice, id)
	}
	t.none(in, "early", v.Early, func(m course) string {
		return sprintf("%s by %v of %v", m.ID, m.EarlyBy(), m.Delay)
	})
}

type course = account.Course[string]

func (t *trial) none(in *receiver, what string, messages []course, describe func(course) string) {
	t.Helper()
	var described []string
	for _, m := range messages {
		described = append(described, describe(m))
	}
	if len(described) > 0 {
		t.errorf("queue %s: %s: %s", in.queue, what, list(described))
	}
}

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

// A fate says what may happen to stored messages instead of arriving once.
type fate struct {
	again bool          // one may arrive more than once, as after a broker's failure
	late  time.Duration // they may arrive so much later than the suite's patience
	kept  *receiver     // they may arrive here instead; nil: nowhere else
}

// truthful checks the answer of every Publish. After nil the message arrives. After an error that
// is safe to retry it does not. After ErrUnknown it may or may not.
func (t *trial) truthful(in *receiver, outs []outcome, f fate) {
	t.Helper()
	var stored []outcome
	said := map[account.Outcome]int{}
	for _, o := range outs {
		said[account.OutcomeOf(o.err)]++
		switch {
		case o.err == nil:
			stored = append(stored, o)
		case !delayer.SafeToRetry(o.err):
			t.unknown(o)
		}
	}
	t.Logf("of %d messages, %d stored, %d not stored, %d unknown",
		len(outs), said[account.Confirmed], said[account.Refused], said[account.Unknown])
	t.awaitFate(in, stored, f)
	if f.again {
		t.recovered(in)
	}
	t.sentinel(in)
	t.only(in, outs, f.again)
}

// awaitFate waits for the messages of outs, and ends the case if one is neither here nor kept.
func (t *trial) awaitFate(in *receiver, outs []outcome, f fate) {
	t.Helper()
	var ids []string
	last := time.Now()
	for _, o := range outs {
		ids = append(ids, o.id())
		if due := o.before.Add(t.effective(o.delay)); due.After(last) {
			last = due
		}
	}
	missing := in.awaitOr(f.kept, ids, last.Add(t.h.Patience+f.late), t.h.Patience)
	kept := slices.DeleteFunc(ids, func(id string) bool { return in.has(id) || !f.kept.has(id) })
	if len(kept) > 0 {
		t.Logf("queue %s: %d messages were unroutable while the broker started, and are kept", in.queue, len(kept))
	}
	if len(missing) > 0 {
		t.failf("queue %s: missing %s", in.queue, list(missing))
	}
}

func (t *trial) unknown(o outcome) {
	t.Helper()
	var e *delayer.Error
	if !errors.As(o.err, &e) || !errors.Is(o.err, delayer.ErrUnknown) {
		t.errorf("message %s: Publish returned the %T %q, want a *delayer.Error that is safe to retry or %q", o.id(), o.err, o.err, delayer.ErrUnknown)
	}
}

// recovered waits until Publish works again: a Delayer may still be reconnecting.
func (t *trial) recovered(in *receiver) {
	t.Helper()
	deadline := time.Now().Add(t.h.Patience)
	for {
		o := t.publish(to(in, t.name(sentinelMark), t.short()))
		if o.err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.failf("publishing does not work again: %v", o.err)
		}
		time.Sleep(10 * time.Millisecond) // As an application would before it tries again.
	}
}
