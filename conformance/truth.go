package conformance

import (
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
)

// fate says what may happen to stored messages, besides arriving once.
type fate struct {
	again bool          // one may arrive more than once, as after a broker's failure
	late  time.Duration // how long beyond the suite's patience they may stay away
	kept  *receiver     // where late ones may be instead, unroutable while the broker started; or nil
}

// truthful checks the answer of every Publish. After nil the message arrives. After an error that
// is safe to retry it does not. After ErrUnknown it may or may not.
func (t *trial) truthful(in *receiver, outs []outcome, f fate) {
	t.Helper()
	var stored, possible []outcome
	var refused []string
	errs := map[string]error{}
	for _, o := range outs {
		switch {
		case o.err == nil:
			stored = append(stored, o)
			possible = append(possible, o)
		case delayer.SafeToRetry(o.err):
			refused = append(refused, o.id())
			errs[o.id()] = o.err
		default:
			t.unknown(o)
			possible = append(possible, o)
		}
	}
	t.Logf("of %d messages, %d stored, %d not stored, %d unknown", len(outs), len(stored), len(refused), len(possible)-len(stored))
	t.awaitFate(in, stored, f)
	if f.again {
		t.recovered(in)
	}
	t.sentinel(in)
	var lied []string
	for _, id := range refused {
		if in.has(id) {
			lied = append(lied, sprintf("%s (%v)", id, errs[id]))
		}
	}
	if len(lied) > 0 {
		t.errorf("queue %s: arrived, though the error said that they were not stored: %s", in.queue, list(lied))
		return
	}
	t.only(in, possible, f.again)
}

// awaitFate waits for the messages of outs, and ends the case if one is missing that is not kept
// either.
func (t *trial) awaitFate(in *receiver, outs []outcome, f fate) {
	t.Helper()
	ids, deadline := t.expected(outs)
	missing := in.awaitOr(f.kept, ids, deadline.Add(t.h.Patience+f.late))
	kept := slices.DeleteFunc(ids, func(id string) bool { return in.has(id) || !f.kept.has(id) })
	if len(kept) > 0 {
		t.Logf("queue %s: %d messages were unroutable while the broker started, and are kept", in.queue, len(kept))
	}
	if len(missing) > 0 {
		t.failf("queue %s: missing %s", in.queue, list(missing))
	}
}

// unknown checks that an error that is not safe to retry says why: there is only one reason.
func (t *trial) unknown(o outcome) {
	t.Helper()
	var e *delayer.Error
	if !errors.As(o.err, &e) || !errors.Is(o.err, delayer.ErrUnknown) {
		t.errorf("message %s: Publish returned the %T %q, want a *delayer.Error that is safe to retry or %q", o.id(), o.err, o.err, delayer.ErrUnknown)
	}
}

// recovered waits until Publish works, as it may not at once on every connection that was lost.
func (t *trial) recovered(in *receiver) {
	t.Helper()
	deadline := deadlineIn(t.h.Patience)
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
