package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
)

func (t *trial) publishTogether(ctx context.Context, jobs []job) []outcome {
	t.Helper()
	messages := make([]delayer.Message, len(jobs))
	for i, j := range jobs {
		messages[i] = j.message()
	}
	before := time.Now()
	results := t.d.PublishBatch(ctx, messages)
	if len(results) != len(jobs) {
		t.errorf("%d results for %d messages", len(results), len(jobs))
		results = make([]error, len(jobs))
	}
	outs := make([]outcome, len(jobs))
	for i, err := range results {
		outs[i] = outcome{job: jobs[i], before: before, after: time.Now(), err: err}
	}
	return outs
}

func batch(t *trial) {
	in := t.queue(t.name("queue"))
	kinds := map[string]error{}
	list := jobs(300, "delayed", func(i int, id string) job {
		j := to(in, id, t.delay(2*brief))
		switch i % 20 {
		case 3:
			j.delay = 0
			j.msg = text("at-once" + id)
		case 5:
			j.delay = -1
			kinds[id] = delayer.ErrOutOfRange
		case 7:
			j.msg.Expiration = "1000"
			kinds[id] = delayer.ErrInvalid
		case 11:
			j.key = t.name("nowhere")
			kinds[id] = delayer.ErrUnroutable
		case 13:
			j.msg.Body = append(j.msg.Body, make([]byte, 1000*i)...) // longer than all before it
		}
		return j
	})
	var good []outcome
	for _, o := range t.publishTogether(t.ctx, list) {
		switch kind := kinds[o.id()]; {
		case kind != nil:
			t.refused(o, kind)
		case o.err != nil:
			t.failf("message %s: its result is %v", o.id(), o.err)
		default:
			good = append(good, o)
		}
	}
	t.exactly(in, good)
	if t.lim.Ordered {
		t.inOrder(in, "at-once")
		t.inOrder(in, "delayed")
	}
	if got := t.publishTogether(t.ctx, nil); len(got) != 0 {
		t.errorf("%d results for no message", len(got))
	}
}

// inOrder checks that messages whose ids begin with prefix arrived in the order of their ids.
func (t *trial) inOrder(in *receiver, prefix string) {
	t.Helper()
	var wrong []string
	last := ""
	for _, id := range ids(in.all()) {
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		if id < last {
			wrong = append(wrong, id+" after "+last)
		}
		last = max(last, id)
	}
	if len(wrong) > 0 {
		t.errorf("queue %s: out of order: %s", in.queue, list(wrong))
	}
}

// batchCtxEnded ends the ctx of one batch before it begins, and that of another once its first
// message has arrived. Then it overwrites the messages, since PublishBatch has returned.
func batchCtxEnded(t *trial) {
	in := t.queue(t.name("queue"))
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	never := t.publishTogether(ended, jobs(10, "never", func(_ int, id string) job { return to(in, id, t.short()) }))
	for _, o := range never {
		t.refused(o, delayer.ErrNotSent)
	}

	during, cancel := context.WithCancel(t.ctx)
	defer cancel()
	list := jobs(1000, "during", func(i int, id string) job {
		if i == 0 {
			return to(in, id, 0)
		}
		return to(in, id, t.short())
	})
	go func() {
		in.await([]string{list[0].msg.MessageId}, t.h.Patience)
		cancel()
	}()
	outs := t.publishTogether(during, list)
	cancel()
	for _, o := range slices.Concat(never, outs) {
		if o.err != nil && !errors.Is(o.err, context.Canceled) {
			t.errorf("message %s: its result is %v, want an error that is %q", o.id(), o.err, context.Canceled)
		}
		copy(o.msg.Body, strings.Repeat("overwritten", 2))
	}
	t.truthful(in, slices.Concat(never, outs), fate{})
	for _, a := range in.all() {
		if !isSentinel(a.MessageId) && string(a.Body) != a.MessageId {
			t.errorf("message %s: arrived with the body %q, which was written after PublishBatch had returned", a.MessageId, a.Body)
		}
	}
}
