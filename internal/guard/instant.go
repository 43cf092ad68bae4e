package guard

import "time"

// An instant is a moment by two clocks. The monotonic clock stops while the machine is suspended,
// and the wall clock can be set. The time that has passed lies between the two.
type instant struct {
	mono time.Duration // since the Guard was made
	wall time.Time     // without a monotonic reading
}

// instantAt returns a moment as time.Now tells it.
func instantAt(now, epoch time.Time) instant { return instant{now.Sub(epoch), now.Round(0)} }

// atMost returns the longest that can have passed since an earlier instant.
func (i instant) atMost(since instant) time.Duration {
	return max(i.mono-since.mono, i.wall.Sub(since.wall))
}

// atLeast returns the shortest that can have passed since an earlier instant.
func (i instant) atLeast(since instant) time.Duration {
	return min(i.mono-since.mono, i.wall.Sub(since.wall))
}
