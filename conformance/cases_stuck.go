package conformance

import (
	"context"
	"slices"
	"sync"
	"time"
)

// stuckQueue declares a queue that confirms nothing until resume is called, which returns a
// receiver of what arrives there.
func (t *trial) stuckQueue() (name string, resume func() *receiver) {
	t.Helper()
	name = t.name("stuck")
	again, err := t.w.DeclareStuckQueue(t.ctx, name)
	t.must(err)
	return name, func() *receiver {
		t.Helper()
		t.must(again(t.ctx))
		in := newReceiver(name)
		t.must(t.w.Consume(t.ctx, name, in.add))
		return in
	}
}

// stuck does not ask for an error: a backend may confirm a message before it is routed. The first
// caller has left when the others come. Nothing is delayed to the stuck queue: RabbitMQ itself
// makes what dead-letters from a quorum queue wait for a first message to such a destination.
func stuck(t *trial) {
	const callers, rounds, noDelay = 3, 10, 0
	name, resume := t.stuckQueue()
	in, exchange := t.routed("direct", "key")
	first, cancel := context.WithCancel(t.ctx)
	defer time.AfterFunc(several, cancel).Stop()
	left := publishBy(first, t.d, job{key: name, delay: noDelay, msg: text("first")})
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	waiting := make([]outcome, callers)
	var wg sync.WaitGroup
	for i, j := range jobs(callers, "stuck", func(_ int, id string) job { return job{key: name, delay: noDelay, msg: text(id)} }) {
		wg.Go(func() { waiting[i] = publishBy(ctx, t.d, j) })
	}
	var others []outcome
	publish := func(when string) {
		for i := range rounds {
			id := func(what string) string { return sprintf("%s-%s-%d", what, when, i) }
			others = append(others, t.mustPublish(
				to(in, id("at-once"), noDelay), to(in, id("delayed"), t.short()),
				job{exchange, "key", noDelay, text(id("at-once-exchange"))}, job{exchange, "key", t.short(), text(id("delayed-exchange"))},
			)...)
		}
	}
	publish("beside")
	cancel()
	wg.Wait()
	publish("behind") // what was sent is still unconfirmed
	t.exactly(in, others)
	t.truthful(resume(), slices.Concat([]outcome{left}, waiting), fate{})
}

// batchStuck publishes to many destinations, one of which confirms nothing. Some time after the
// messages for the others have arrived, it ends the ctx: a message may arrive before it is
// confirmed.
func batchStuck(t *trial) {
	const messages, queues, noDelay = 600, 10, 0
	name, resume := t.stuckQueue()
	var ins []*receiver
	for range queues {
		ins = append(ins, t.queue(t.name("queue")))
	}
	exchange, routed := t.exchange("direct"), ins[0]
	t.bind(routed, "key", exchange)
	list := jobs(messages, "message", func(i int, id string) job {
		switch i % 5 {
		case 0, 1:
			return job{key: name, delay: noDelay, msg: text(id)}
		case 2:
			return job{exchange, "key", noDelay, text(id)}
		case 3:
			return to(ins[i/5%queues], id, t.short())
		}
		return to(ins[i/5%queues], id, noDelay)
	})
	in := func(j job) *receiver { // nil: the stuck one
		if j.exchange != "" {
			return routed
		}
		at := slices.IndexFunc(ins, func(in *receiver) bool { return in.queue == j.key })
		if at < 0 {
			return nil
		}
		return ins[at]
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	go func() {
		defer cancel()
		deadline := time.Now().Add(t.h.Patience)
		for _, j := range list {
			if in := in(j); in != nil {
				in.await([]string{j.msg.MessageId}, time.Until(deadline))
			}
		}
		select {
		case <-time.After(several):
		case <-ctx.Done():
		}
	}()
	outs := map[*receiver][]outcome{}
	for _, o := range t.publishTogether(ctx, list) {
		in := in(o.job)
		if in != nil && o.err != nil {
			t.failf("message %s, to another destination: its result is %v", o.id(), o.err)
		}
		outs[in] = append(outs[in], o)
	}
	for _, in := range ins {
		t.exactly(in, outs[in])
	}
	t.truthful(resume(), outs[nil], fate{})
}
