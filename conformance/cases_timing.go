package conformance

import (
	"math"
	"slices"
	"time"
)

var timingCases = []testCase{
	{Case: Case{"no-head-of-line-blocking", "a message with a long delay must not block those with a short one behind it"}, check: headOfLine},
	{Case: Case{"priorities-do-not-block", "messages of different priority must not block one another"}, check: priorities},
	{Case: Case{"same-delay-keeps-order", "messages with the same delay from one publisher must arrive in the order of publishing"}, check: keepsOrder},
	{Case: Case{"rounding-up", "a delay between two multiples of the resolution must be rounded up, never down"}, check: roundingUp},
	{Case: Case{"exact-tiers", "a delay that is no tier must be refused where only the tiers exist"}, check: exactTiers},
}

// overtakes publishes long ones first and short ones behind them, and checks that the short ones
// come first. A slow machine may let both be due before it delivers either, which shows nothing:
// then it tries a longer delay, and the longest more than once. A queue that blocks does so every
// time.
func (t *trial) overtakes(long, short func(i int) (priority uint8)) {
	t.Helper()
	delays := t.longer(t.short())
	if len(delays) == 0 {
		t.Logf("does not apply: no delay is longer than %v", t.short())
		return
	}
	const again = 3
	longest := delays[len(delays)-1]
	var overtaken string
	for _, delay := range append(delays, slices.Repeat([]time.Duration{longest}, again)...) {
		if overtaken = t.overtake(delay, long, short); overtaken == "" {
			return
		}
		t.Logf("%s", overtaken)
	}
	t.errorf("%s", overtaken)
}

// overtake tries one delay, and returns which long one arrived before which short ones.
func (t *trial) overtake(delay time.Duration, long, short func(i int) (priority uint8)) string {
	t.Helper()
	const longs, shorts = 3, 50
	in := t.queue(t.name("queue"))
	outs := t.mustPublish(jobs(longs, "long", func(i int, id string) job {
		j := to(in, id, delay)
		j.msg.Priority = long(i)
		return j
	})...)
	outs = append(outs, t.mustPublish(jobs(shorts, "short", func(i int, id string) job {
		j := to(in, id, t.short())
		j.msg.Priority = short(i)
		return j
	})...)...)
	t.exactly(in, outs)
	isShort := func(id string) bool { return id[:5] == "short" }
	order := ids(in.all())
	first := slices.IndexFunc(order, func(id string) bool { return !isShort(id) })
	if behind := slices.DeleteFunc(order[first+1:], func(id string) bool { return !isShort(id) }); len(behind) > 0 {
		return sprintf("%s, with a delay of %v, arrived before %s", order[first], delay, list(behind))
	}
	return ""
}

func headOfLine(t *trial) {
	none := func(int) uint8 { return 0 }
	t.overtakes(none, none)
}

func priorities(t *trial) {
	if t.lim.MaxPriority == 0 {
		t.Logf("does not apply: no message may have a priority")
		return
	}
	top := min(9, t.lim.MaxPriority)
	t.overtakes(func(int) uint8 { return top }, func(i int) uint8 { return uint8(i) % (top + 1) })
	t.overtakes(func(int) uint8 { return 0 }, func(i int) uint8 { return uint8(i) % (top + 1) })
}

func keepsOrder(t *trial) {
	if !t.lim.Ordered {
		t.Logf("does not apply: the backend does not declare an order")
		return
	}
	const messages = 150
	in := t.queue(t.name("queue"))
	var outs []outcome
	for _, j := range jobs(messages, "in-order", func(_ int, id string) job { return to(in, id, t.delay(2*brief)) }) {
		outs = append(outs, t.mustPublish(j)...) // One after the other, as only then there is an order.
	}
	t.exactly(in, outs)
	t.inOrder(in, "in-order")
}

// roundingUp checks that what arrives waited as long as the next multiple, or tier, above its
// delay.
func roundingUp(t *trial) {
	if t.lim.ExactTiers {
		t.Logf("does not apply: only the tiers are taken")
		return
	}
	step := t.lim.Resolution
	delays := []time.Duration{1, step + 1, 2*step - 1, t.short() + 1}
	for _, tier := range t.lim.Tiers {
		if tier < t.lim.Max && tier <= several {
			delays = append(delays, tier-1, tier+1)
		}
	}
	delays = slices.DeleteFunc(delays, func(d time.Duration) bool { return d < 1 || t.effective(d) > t.lim.Max })
	in := t.queue(t.name("queue"))
	outs := t.mustPublish(jobs(len(delays), "rounded", func(i int, id string) job { return to(in, id, delays[i]) })...)
	t.exactly(in, outs)
	for _, o := range outs {
		if by := o.before.Add(t.effective(o.delay)).Sub(in.of(o.id())[0].At); by > 0 {
			t.errorf("message %s: a delay of %v must become %v, and it arrived %v before that", o.id(), o.delay, t.effective(o.delay), by)
		}
	}
}

// ids returns the ids of arrivals, in order, without those of the suite's own messages.
func ids(arrivals []Arrival) []string {
	var list []string
	for _, a := range arrivals {
		if !isSentinel(a.MessageId) {
			list = append(list, a.MessageId)
		}
	}
	return list
}

func exactTiers(t *trial) {
	if !t.lim.ExactTiers {
		t.Logf("does not apply: not only the tiers are taken")
		return
	}
	in := t.queue(t.name("queue"))
	for _, tier := range t.lim.Tiers {
		for _, d := range []time.Duration{tier - 1, tier + 1} {
			if !slices.Contains(t.lim.Tiers, d) && d > 0 {
				t.outOfRange(in, d)
			}
		}
	}
	t.exactly(in, nil)
}

const forever = time.Duration(math.MaxInt64)
