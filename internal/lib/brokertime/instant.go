package brokertime

import (
	"sync/atomic"
	"time"
)

// An Instant is a moment by two clocks. The monotonic clock stops while the machine is suspended.
// The other goes on, and where the system has no better it is the wall clock, which can be set. The
// time that has passed lies between the two.
type Instant struct {
	Mono time.Duration // since an epoch of the caller's
	Wall time.Time     // see [Wall]; without a monotonic reading
}

// AtMost returns the longest that can have passed since an earlier Instant.
func (i Instant) AtMost(since Instant) time.Duration {
	return max(i.Mono-since.Mono, i.Wall.Sub(since.Wall))
}

// AtLeast returns the shortest that can have passed since an earlier Instant.
func (i Instant) AtLeast(since Instant) time.Duration {
	return min(i.Mono-since.Mono, i.Wall.Sub(since.Wall))
}

// A Wall is a clock that goes on while the machine is suspended: what it shows at a moment that
// time.Now has told, without a monotonic reading. Only the time between two of its readings counts.
type Wall func(now time.Time) time.Time

func wallClock(now time.Time) time.Time { return now.Round(0) }

// ThisWall returns the Wall of this machine. If the wall clock is set together with the broker's,
// as on one machine, that looks as if the machine had been suspended, and the step is not noticed.
// So it is taken only where there is no clock that nobody can set.
func ThisWall() Wall {
	boot, ok := sinceBoot()
	if !ok {
		return wallClock
	}
	m := &machine{epoch: time.Now(), boot: boot, sinceBoot: sinceBoot, mono: time.Since}
	return m.wall
}

// A machine knows how long it was suspended: by how much more time has passed since it was booted
// than by its monotonic clock.
type machine struct {
	epoch     time.Time
	boot      time.Duration // at the epoch
	slept     atomic.Int64  // since then, at least
	sinceBoot func() (time.Duration, bool)
	mono      func(since time.Time) time.Duration
}

func (m *machine) wall(now time.Time) time.Time {
	if boot, ok := m.sinceBoot(); ok {
		slept := int64(boot - m.boot - m.mono(m.epoch)) // read last: a pause between the two is no sleep
		for was := m.slept.Load(); slept > was && !m.slept.CompareAndSwap(was, slept); was = m.slept.Load() {
		}
	}
	return wallClock(m.epoch).Add(now.Sub(m.epoch) + time.Duration(m.slept.Load()))
}
