package conformance

import (
	"time"

	"github.com/delayer-go/delayer"
)

func arrives(t *trial) {
	in, exchange := t.routed("direct", "order.expired")
	t.exactly(in, t.mustPublish(job{exchange, "order.expired", t.short(), text("one")}))
}

func arrivesByName(t *trial) {
	in := t.queue(t.name("queue"))
	t.exactly(in, t.mustPublish(to(in, "one", t.short())))
}

func neverEarly(t *trial) {
	const messages = 300
	in, exchange := t.routed("direct", "key")
	delays := t.mixed(messages)
	t.exactly(in, t.mustPublish(jobs(messages, "mixed", func(i int, id string) job {
		return job{exchange, "key", delays[i], text(id)}
	})...))
}

func dueHeader(t *trial) {
	in, exchange := t.routed("fanout", "")
	var outs []outcome
	for _, e := range []string{exchange, ""} {
		outs = append(outs, t.mustPublish(jobs(5, "to:"+e, func(i int, id string) job {
			delay := min(t.short()+time.Duration(i)*time.Millisecond, t.lim.Max)
			if t.lim.ExactTiers {
				delay = t.short()
			}
			return job{e, in.queue, delay, text(id)}
		})...)...)
	}
	t.exactly(in, outs)
	ids := map[string]string{}
	for _, o := range outs {
		for _, a := range in.of(o.id()) {
			e, err := delayer.ParseHeader(a.Headers)
			if err != nil {
				t.errorf("message %s: the header is %#v, want \"<id> <due> <delay> <exchange>\": %v", o.id(), a.Headers[delayer.Header], err)
				continue
			}
			if other, taken := ids[e.ID]; taken && other != o.id() {
				t.errorf("messages %s and %s carry the same id %q", o.id(), other, e.ID)
			}
			ids[e.ID] = o.id()
			first, last := o.before.Add(o.delay).UnixMilli(), o.after.Add(t.effective(o.delay)).UnixMilli()+1
			if due := e.Due.UnixMilli(); due < first || due > last {
				t.errorf("message %s: due at %d, want %d to %d", o.id(), due, first, last)
			}
			if most := t.effective(o.delay) + time.Millisecond; e.Delay < time.Millisecond || e.Delay > most {
				t.errorf("message %s: a delay of %v, want up to %v", o.id(), e.Delay, most)
			}
			if e.Exchange != o.exchange || a.RoutingKey != o.key {
				t.errorf("message %s: destination %q with key %q, want %q with key %q", o.id(), e.Exchange, a.RoutingKey, o.exchange, o.key)
			}
			if late := a.At.Sub(e.Due); late < -time.Millisecond || late > a.At.Sub(o.before) {
				t.errorf("message %s: late by %v when it arrived %v after Publish", o.id(), late, a.At.Sub(o.before))
			}
		}
	}
}
