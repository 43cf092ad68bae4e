package conformance

import "time"

// The suite is written for these delays; delay makes of them what the backend has.
const (
	brief   = 250 * time.Millisecond // short, and yet longer than a Publish takes
	several = 2 * time.Second        // long enough to do something meanwhile
)

// short is the delay of a message that need not wait for long.
func (t *trial) short() time.Duration { return t.delay(brief) }

// effective is what a delay must become: the next multiple of the resolution, or the next tier.
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

// delay returns the shortest delay of the backend that is not under d, or else the longest that it
// has.
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

// longer returns delays above d, ascending, for cases that do something while a message waits: if
// there was no time for it with the first, there will be with the next.
func (t *trial) longer(d time.Duration) []time.Duration {
	var list []time.Duration
	for _, want := range []time.Duration{several, 2 * several, 4 * several, 8 * several} {
		if e := t.delay(max(want, d+t.lim.Resolution)); e > d && (len(list) == 0 || e > list[len(list)-1]) {
			list = append(list, e)
		}
	}
	return list
}

// mixed returns n delays of all sizes, in no order: any duration where the backend takes any, some
// of its tiers otherwise.
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
