package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
)

var concurrencyCases = []testCase{
	{Case: Case{"concurrency", "many goroutines sharing a Delayer must each have their messages delivered, once"}, check: concurrency},
	{Case: Case{"two-delayers", "two Delayers with the same configuration must share the broker, and each deliver its own"}, check: twoDelayers},
	{Case: Case{"ctx-ended-before", "Publish with a ctx that has ended must say so, and store nothing"}, check: ctxEndedBefore},
	{Case: Case{"ctx-ended-during", "Publish must return when its ctx ends, and say truly whether the message may be stored"}, check: ctxEndedDuring},
}

func concurrency(t *trial) {
	const goroutines, messages = 64, 8
	receivers := []*receiver{t.queue(t.name("queue")), t.queue(t.name("queue")), t.queue(t.name("queue"))}
	delays := t.mixed(messages)
	outs := make([][]outcome, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			in := receivers[g%len(receivers)]
			for _, j := range jobs(messages, sprintf("goroutine-%02d", g), func(i int, id string) job { return to(in, id, delays[i]) }) {
				outs[g] = append(outs[g], t.publish(j))
			}
		})
	}
	wg.Wait()
	for b, in := range receivers {
		var all []outcome
		for g := b; g < goroutines; g += len(receivers) {
			all = append(all, outs[g]...)
		}
		for _, o := range all {
			if o.err != nil {
				t.errorf("message %s: Publish returned %v", o.id(), o.err)
			}
		}
		t.exactly(in, all)
	}
}

func twoDelayers(t *trial) {
	const messages = 25
	other := t.open()
	defer func() { _ = other.Close() }()
	in := t.queue(t.name("queue"))
	outs := t.mustPublish(jobs(messages, "one", func(_ int, id string) job { return to(in, id, t.short()) })...)
	for _, j := range jobs(messages, "other", func(_ int, id string) job { return to(in, id, t.short()) }) {
		o := publishBy(t.ctx, other, j)
		if o.err != nil {
			t.failf("message %s: the second Delayer's Publish returned %v", o.id(), o.err)
		}
		outs = append(outs, o)
	}
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

// ctxEndedDuring ends contexts after all kinds of times, some of which are in the middle of a
// Publish.
func ctxEndedDuring(t *trial) {
	const messages = 200
	in := t.queue(t.name("queue"))
	// How long a Publish takes here, to end contexts before, in and after that time.
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
		// Generous: this asks whether Publish obeys, not how fast.
		if took := o.after.Sub(o.before); took > 2*usual+10*time.Second {
			t.errorf("message %s: Publish returned only after %v", o.id(), took)
		}
	}
	t.truthful(in, slices.Concat(outs, warm), fate{})
}
