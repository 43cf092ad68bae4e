package conformance

import (
	"math"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
)

// overtakes publishes messages with a long delay, and behind them some with a short delay, which
// must arrive first. On a slow machine both may be due before either is delivered, which shows
// nothing. So overtakes then tries longer delays, and the longest several times. A queue that
// blocks does so every time.
func (t *trial) overtakes(long, short func(i int) (priority uint8)) {
	t.Helper()
	delays := t.longer(t.short())
	if len(delays) == 0 {
		t.Passf("does not apply: no delay is longer than %v", t.short())
	}
	longest := delays[len(delays)-1]
	var overtaken string
	for _, delay := range append(delays, slices.Repeat([]time.Duration{longest}, 3)...) {
		if overtaken = t.overtake(delay, long, short); overtaken == "" {
			return
		}
		t.Logf("%s", overtaken)
	}
	t.errorf("%s", overtaken)
}

// overtake tries one delay. It returns which long message arrived before short ones, or "".
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
		t.Passf("does not apply: no message may have a priority")
	}
	top := min(9, t.lim.MaxPriority)
	t.overtakes(func(int) uint8 { return top }, func(i int) uint8 { return uint8(i) % (top + 1) })
	t.overtakes(func(int) uint8 { return 0 }, func(i int) uint8 { return uint8(i) % (top + 1) })
}

func keepsOrder(t *trial) {
	if !t.lim.Ordered {
		t.Passf("does not apply: the backend does not declare an order")
	}
	in := t.queue(t.name("queue"))
	var outs []outcome
	for _, j := range jobs(150, "in-order", func(_ int, id string) job { return to(in, id, t.delay(2*brief)) }) {
		outs = append(outs, t.mustPublish(j)...) // One after the other, as only then there is an order.
	}
	t.exactly(in, outs)
	t.inOrder(in, "in-order")
}

// roundingUp checks that messages wait for the next multiple, or tier, above their delay.
func roundingUp(t *trial) {
	if t.lim.ExactTiers {
		t.Passf("does not apply: only the tiers are taken")
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
		t.Passf("does not apply: not only the tiers are taken")
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

func zeroDelay(t *trial) {
	in, exchange := t.routed("topic", "a.*")
	t.exactly(in, t.mustPublish(jobs(50, "now", func(i int, id string) job {
		if i%2 == 0 {
			return to(in, id, 0)
		}
		return job{exchange, "a.b", 0, text(id)}
	})...))
	t.refused(t.publish(job{exchange, "b.a", 0, text("nothing is bound for its key")}), delayer.ErrUnroutable)
	t.exactly(t.queue(t.name("after")), nil)
}

// outOfRange checks that a delay is refused. The caller checks that nothing arrives.
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
	}
	t.exactly(in, t.mustPublish(to(in, "still usable", t.short())))
	if t.lim.Max == forever {
		t.Passf("does not apply: no delay is too long")
	}
}

func negativeDelay(t *trial) {
	in := t.queue(t.name("queue"))
	for _, d := range []time.Duration{-1, -time.Second, math.MinInt64} {
		t.outOfRange(in, d)
	}
	t.exactly(in, t.mustPublish(to(in, "still usable", t.short())))
}

// The suite is written for these delays; delay turns them into delays that the backend has.
const (
	brief   = 250 * time.Millisecond // short, and yet longer than a Publish takes
	several = 2 * time.Second        // long enough to do something meanwhile
)

// short is the delay of a message that need not wait for long.
func (t *trial) short() time.Duration { return t.delay(brief) }

// effective returns how long a message waits: the next multiple of the resolution, or the next
// tier.
func (t *trial) effective(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	for _, tier := range t.lim.Tiers {
		if d <= tier {
			return tier
		}
	}
	if r := t.lim.Resolution; r > 0 && d%r != 0 {
		return d - d%r + r
	}
	return d
}

// delay returns the backend's shortest delay of at least d, or else its longest.
func (t *trial) delay(d time.Duration) time.Duration {
	if n := len(t.lim.Tiers); n > 0 && d > t.lim.Tiers[n-1] {
		return t.lim.Tiers[n-1]
	}
	if e := t.effective(d); e <= t.lim.Max {
		return e
	}
	if r := t.lim.Resolution; r > 0 {
		return t.lim.Max - t.lim.Max%r
	}
	return t.lim.Max
}

// longer returns delays above d, ascending. Cases that do something while a message waits try the
// next if the time was too short.
func (t *trial) longer(d time.Duration) []time.Duration {
	var list []time.Duration
	for _, want := range []time.Duration{several, 2 * several, 4 * several, 8 * several} {
		if e := t.delay(max(want, d+t.lim.Resolution)); e > d && (len(list) == 0 || e > list[len(list)-1]) {
			list = append(list, e)
		}
	}
	return list
}

// mixed returns n delays of all sizes, in no order.
func (t *trial) mixed(n int) []time.Duration {
	low := max(t.lim.Resolution, 20*time.Millisecond)
	high := max(4*t.lim.Resolution, 1500*time.Millisecond)
	if len(t.lim.Tiers) > 0 {
		low, high = t.lim.Tiers[0], max(t.lim.Tiers[0], high)
	}
	high = min(high, t.lim.Max)
	low = min(low, high)
	list := make([]time.Duration, n)
	for i := range list {
		const stride = 7919 // a prime, so that neighbours are far apart and all sizes occur
		list[i] = low + time.Duration(int64(high-low)*int64(i*stride%n)/int64(n))
		if t.lim.ExactTiers {
			list[i] = t.delay(list[i])
		}
	}
	return list
}
