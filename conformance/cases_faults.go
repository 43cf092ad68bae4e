package conformance

import (
	"context"
	"time"
)

var faultCases = []testCase{
	{Case: Case{"connection-cut", "when connections die while publishing, every nil must be delivered, every error be true, and publishing work again"}, check: connectionCut, alone: true},
	{Case: Case{"broker-restart", "messages that wait while the broker restarts must all arrive, or be kept as unroutable, none early, and publishing must work again"}, check: brokerRestart, alone: true},
}

func connectionCut(t *trial) {
	const goroutines, cuts, between = 16, 3, 200
	box := t.queue(t.name("queue"))
	t.must(t.w.Cut(t.ctx)) // Once with nothing under way.
	p := startPublishers(t, goroutines, func(ctx context.Context, id string) outcome {
		return publishBy(ctx, t.d, to(box, id, t.short()))
	})
	for range cuts {
		p.awaitStored(between)
		if err := t.w.Cut(t.ctx); err != nil {
			p.stop()
			t.must(err)
		}
	}
	p.awaitStored(between)
	t.truthful(box, p.stop(), fate{again: true})
}

func brokerRestart(t *trial) {
	const messages, goroutines, between = 300, 4, 50
	box := t.queue(t.name("queue"))
	delays := []time.Duration{t.delay(several), t.delay(2 * several), t.delay(4 * several)}
	outs := t.mustPublish(jobs(messages, "waiting", func(i int, id string) job { return to(box, id, delays[i%len(delays)]) })...)
	p := startPublishers(t, goroutines, func(ctx context.Context, id string) outcome {
		return publishBy(ctx, t.d, to(box, id, t.short()))
	})
	p.awaitStored(between)
	kept := t.astray()
	err := t.w.Restart(t.ctx)
	if err == nil {
		p.awaitStored(between)
	}
	outs = append(outs, p.stop()...)
	t.must(err)
	if !t.lim.SurvivesRestart {
		t.Logf("what waited is not looked for: the backend does not declare that it survives")
		after := t.mustPublish(to(box, "after the restart", t.short()))
		t.await(box, after)
		t.only(box, append(outs, after...), true)
		return
	}
	t.truthful(box, outs, fate{again: true, late: triesAgain, kept: kept})
}

// triesAgain is how long a quorum queue takes until it tries again what it could not route: 3 min, and some time to
// catch up. RabbitMQ starts its queues before it knows their bindings again, so what comes due while it starts may find
// none (rabbit_vhost:recover/1, up to 4.2 where Mnesia keeps the metadata).
const triesAgain = 4 * time.Minute

// astray collects what is kept as unroutable from now on, or returns nil if nothing can be.
func (t *trial) astray() *inbox {
	t.Helper()
	if !t.lim.KeepsUnroutable {
		return nil
	}
	box := newInbox("for unroutable messages")
	t.must(t.w.Unroutable(t.ctx, box.add))
	return box
}
