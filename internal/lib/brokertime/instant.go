package brokertime

import "time"

// An Instant is a moment by two clocks. The monotonic clock stops while the machine is suspended,
// and the wall clock can be set. The time that has passed lies between the two.
type Instant struct {
	Mono time.Duration // since an epoch of the caller's
	Wall time.Time     // without a monotonic reading
}

// InstantAt returns a moment as time.Now tells it.
func InstantAt(now, epoch time.Time) Instant { return Instant{now.Sub(epoch), now.Round(0)} }

// AtMost returns the longest that can have passed since an earlier Instant.
func (i Instant) AtMost(since Instant) time.Duration {
	return max(i.Mono-since.Mono, i.Wall.Sub(since.Wall))
}

// AtLeast returns the shortest that can have passed since an earlier Instant.
func (i Instant) AtLeast(since Instant) time.Duration {
	return min(i.Mono-since.Mono, i.Wall.Sub(since.Wall))
}
