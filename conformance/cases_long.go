package conformance

import (
	"context"
	"slices"
	"time"
)

// patient is the longest delay that a case waits for without a clock.
const patient = 12 * time.Second

// far returns delays that no case waits for, from an hour to 8 years, ascending. Where all are
// shorter, it is the longest that the backend has.
func (t *trial) far() []time.Duration {
	const day = 24 * time.Hour
	var list []time.Duration
	for _, want := range []time.Duration{time.Hour, 100_000 * time.Second, 30 * day, 8 * 365 * day} {
		if d := t.delay(want); d > patient && (len(list) == 0 || d > list[len(list)-1]) {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		t.Passf("does not apply: no delay is longer than %v", patient)
	}
	return list
}

// near returns the backend's longest delay that a case waits for.
func (t *trial) near() time.Duration {
	if i := slices.IndexFunc(t.lim.Tiers, func(tier time.Duration) bool { return tier > patient }); i > 0 {
		return t.lim.Tiers[i-1]
	}
	if d := t.delay(patient); d <= patient {
		return d
	}
	return t.short()
}

// longWaits publishes messages with long delays, and behind them one that arrives. It needs no
// clock, and shows what becomes of long delays in the first seconds.
func longWaits(t *trial) {
	far := t.far()
	in := t.queue(t.name("queue"))
	outs := t.mustPublish(jobs(len(far), "long", func(i int, id string) job { return to(in, id, far[i]) })...)
	behind := t.mustPublish(to(in, "behind", t.near()))
	t.await(in, behind)
	t.sentinel(in)
	t.only(in, slices.Concat(outs, behind), false)
}

// longArrives puts the broker's clock forward until messages with long delays are due. By that
// clock none may be early.
func longArrives(t *trial) {
	far := t.far()
	clock, err := t.w.Clock(t.ctx)
	t.must(err)
	t.ctx = context.WithoutCancel(t.ctx) // a clock may go forward by waiting, as in a bubble of testing/synctest
	in := newReceiver(t.name("queue"))
	t.must(t.w.DeclareQueue(t.ctx, in.queue))
	t.must(t.w.Consume(t.ctx, in.queue, func(a Arrival) {
		a.At = clock.Now()
		in.add(a)
	}))
	var outs []outcome
	for _, j := range jobs(len(far), "long", func(i int, id string) job { return to(in, id, far[i]) }) {
		before := clock.Now()
		o := t.mustPublish(j)[0]
		o.before, o.after = before, clock.Now()
		outs = append(outs, o)
	}
	for _, o := range outs {
		t.forward(clock, in, o)
	}
	t.sentinel(in)
	t.only(in, outs, false)
}

// forward puts the clock forward until a message arrives, and ends the case if it is missing. A
// message that passes several queues reaches the next one at the end of a step. So it may be late
// by a step for each of them, and longer where the broker is slow. Right before it is due it gets
// time to be early.
func (t *trial) forward(clock Clock, in *receiver, o outcome) {
	t.Helper()
	const (
		steps   = 8
		enough  = 8 // times the delay
		between = 100 * time.Millisecond
	)
	delay := t.effective(o.delay)
	due := o.before.Add(delay)
	for end := due.Add(-several); clock.Now().Before(end); {
		t.must(clock.Forward(t.ctx, min(delay/steps, end.Sub(clock.Now()))))
	}
	t.sentinel(in)
	for next := 2 * several; !in.has(o.id()); next = delay / steps {
		if late := clock.Now().Sub(due); late > enough*delay {
			t.failf("queue %s: missing %s, %v after its delay of %v", in.queue, o.id(), late, o.delay)
		}
		t.must(clock.Forward(t.ctx, next))
		in.await([]string{o.id()}, between)
	}
	t.Logf("message %s: %v by the broker's clock", o.id(), in.of(o.id())[0].At.Sub(o.before))
}
