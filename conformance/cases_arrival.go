package conformance

import (
	"strconv"
	"strings"
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
			mark, ok := a.Headers[delayer.Header].(string)
			id, due, delay, exchange, okParts := parseMark(mark)
			if !ok || !okParts {
				t.errorf("message %s: the header is %#v, want \"<id> <due> <delay> <exchange>\"", o.id(), a.Headers[delayer.Header])
				continue
			}
			if other, taken := ids[id]; taken && other != o.id() {
				t.errorf("messages %s and %s carry the same id %q", o.id(), other, id)
			}
			ids[id] = o.id()
			first, last := o.before.Add(o.delay).UnixMilli(), o.after.Add(t.effective(o.delay)).UnixMilli()+1
			if due < first || due > last {
				t.errorf("message %s: due at %d, want %d to %d", o.id(), due, first, last)
			}
			if most := t.effective(o.delay).Milliseconds() + 1; delay < 1 || delay > most {
				t.errorf("message %s: a delay of %d, want 1 to %d", o.id(), delay, most)
			}
			if exchange != o.exchange || a.RoutingKey != o.key {
				t.errorf("message %s: destination %q with key %q, want %q with key %q", o.id(), exchange, a.RoutingKey, o.exchange, o.key)
			}
			want := delayer.Envelope{ID: id, Due: time.UnixMilli(due), Delay: time.Duration(delay) * time.Millisecond, Exchange: exchange}
			read, err := delayer.ParseHeader(a.Headers)
			if err != nil || read != want {
				t.errorf("message %s: ParseHeader returned %+v, %v, want %+v", o.id(), read, err, want)
			}
			if late := read.Late(a.At); late < -time.Millisecond || late > a.At.Sub(o.before) {
				t.errorf("message %s: late by %v when it arrived %v after Publish", o.id(), late, a.At.Sub(o.before))
			}
		}
	}
}

// parseMark takes the value of delayer.Header apart.
func parseMark(mark string) (id string, due, delay int64, exchange string, ok bool) {
	parts := strings.SplitN(mark, " ", 4)
	if len(parts) != 4 || parts[0] == "" {
		return "", 0, 0, "", false
	}
	due, errDue := strconv.ParseInt(parts[1], 10, 64)
	delay, errDelay := strconv.ParseInt(parts[2], 10, 64)
	return parts[0], due, delay, parts[3], errDue == nil && errDelay == nil
}
