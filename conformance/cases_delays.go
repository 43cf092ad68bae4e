package conformance

import (
	"math"
	"time"

	"github.com/delayer-go/delayer"
)

var delayCases = []testCase{
	{Case: Case{"zero-delay", "a message without delay must arrive at once, by the same rules"}, check: zeroDelay},
	{Case: Case{"beyond-maximum", "a delay beyond Limits().Max must be refused, never shortened, and nothing may be delivered"}, check: beyondMaximum},
	{Case: Case{"negative-delay", "a negative delay must be refused, and nothing may be delivered"}, check: negativeDelay},
}

func zeroDelay(t *trial) {
	const messages = 50
	in, exchange := t.queue(t.name("queue")), t.exchange("topic")
	t.bind(in, "a.*", exchange)
	t.exactly(in, t.mustPublish(jobs(messages, "now", func(i int, id string) job {
		if i%2 == 0 {
			return to(in, id, 0)
		}
		return job{exchange, "a.b", 0, text(id)}
	})...))
	if t.lim.ReportsUnroutable {
		t.refused(t.publish(job{exchange, "b.a", 0, text("nothing is bound for its key")}), delayer.ErrUnroutable)
		t.exactly(t.queue(t.name("after")), nil)
	}
}

// outOfRange checks that a delay is refused. That nothing arrives is for the caller to check.
func (t *trial) outOfRange(in *receiver, d time.Duration) {
	t.Helper()
	t.refused(t.publish(to(in, sprintf("delayed by %v", d), d)), delayer.ErrOutOfRange)
}

func beyondMaximum(t *trial) {
	if t.lim.Max <= 0 {
		t.failf("Limits().Max is %v", t.lim.Max)
	}
	in := t.queue(t.name("queue"))
	for _, more := range []time.Duration{1, time.Millisecond, t.lim.Resolution, t.lim.Max} {
		if t.lim.Max <= forever-more && more > 0 {
			t.outOfRange(in, t.lim.Max+more)
		}
	}
	if t.lim.Max < forever {
		t.outOfRange(in, forever)
		t.outOfRange(in, forever-time.Millisecond+1) // Rounding it up overflows.
	} else {
		t.Logf("does not apply: no delay is too long")
	}
	t.exactly(in, t.mustPublish(to(in, "still usable", t.short())))
}

func negativeDelay(t *trial) {
	in := t.queue(t.name("queue"))
	for _, d := range []time.Duration{-1, -time.Second, math.MinInt64} {
		t.outOfRange(in, d)
	}
	t.exactly(in, t.mustPublish(to(in, "still usable", t.short())))
}
