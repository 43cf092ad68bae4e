package conformance

import (
	"context"
	"time"
)

func connectionCut(t *trial) {
	const goroutines, batches, cuts, between = 33, 1, 3, 80
	const pause = 25 * time.Millisecond // to cut may take seconds: tens of thousands of messages
	in := t.queue(t.name("queue"))
	t.must(t.w.Cut(t.ctx)) // once while nothing is published
	p := startPublishers(t, goroutines, func(ctx context.Context, publisher int, id string) []outcome {
		time.Sleep(pause)
		if publisher < batches {
			return t.publishTogether(ctx, jobs(20, id, func(_ int, id string) job { return to(in, id, t.short()) }))
		}
		return []outcome{publishBy(ctx, t.d, to(in, id, t.short()))}
	})
	var err error
	for range cuts {
		if p.awaitStored(between); err == nil {
			err = t.w.Cut(t.ctx)
		}
	}
	p.awaitStored(between)
	outs := p.stop()
	t.must(err)
	t.truthful(in, outs, fate{again: true})
}

// ownExchangeDeleted deletes it beside a Delayer that goes on, and then between two Delayers: the
// second knows nothing of what the first has published.
func ownExchangeDeleted(t *trial) {
	in, exchange := t.routed("direct", "key")
	kept := t.unroutable()
	var outs []outcome
	for _, hint := range []string{"goes on", "is opened again"} {
		outs = append(outs, t.mustPublish(jobs(50, hint, func(_ int, id string) job {
			return job{exchange, "key", t.delay(several), text(id)}
		})...)...)
		if hint == "is opened again" {
			_ = t.d.Close() // the cases about Close check what it returns
		}
		t.must(t.w.DeleteOwnExchange(t.ctx))
		if hint == "is opened again" {
			t.d = t.open()
		}
	}
	t.truthful(in, outs, fate{again: true, late: triesAgain, kept: kept})
	t.await(in, t.mustPublish(job{exchange, "key", t.short(), text("afterwards")}))
}

func brokerRestart(t *trial) {
	const messages, goroutines, between = 150, 2, 25
	in := t.queue(t.name("queue"))
	delays := []time.Duration{t.delay(several), t.delay(2 * several), t.delay(4 * several)}
	outs := t.mustPublish(jobs(messages, "waiting", func(i int, id string) job { return to(in, id, delays[i%len(delays)]) })...)
	p := startPublishers(t, goroutines, func(ctx context.Context, _ int, id string) []outcome {
		return []outcome{publishBy(ctx, t.d, to(in, id, t.short()))}
	})
	p.awaitStored(between)
	kept := t.unroutable()
	err := t.w.Restart(t.ctx)
	if err == nil {
		p.awaitStored(between)
	}
	outs = append(outs, p.stop()...)
	t.must(err)
	if !t.lim.SurvivesRestart {
		t.Logf("what waited is not looked for: the backend does not declare that it survives")
		after := t.mustPublish(to(in, "after the restart", t.short()))
		t.await(in, after)
		t.only(in, append(outs, after...), true)
		return
	}
	t.truthful(in, outs, fate{again: true, late: triesAgain, kept: kept})
}

// triesAgain is when a quorum queue has dead-lettered unroutable messages again: after three
// minutes by default, and some time for all of them. Messages that expire while the broker starts
// may be unroutable, since RabbitMQ starts its queues before it has read their bindings
// (rabbit_vhost:recover/1, up to 4.2 where Mnesia keeps the metadata).
const triesAgain = 4 * time.Minute

// unroutable receives messages that are kept as unroutable.
func (t *trial) unroutable() *receiver {
	t.Helper()
	in := newReceiver("for unroutable messages")
	t.must(t.w.Unroutable(t.ctx, in.add))
	return in
}
