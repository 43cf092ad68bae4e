package ttl

import (
	"slices"
	"time"
)

// Steps are waits in ascending order. In a ladder, a message waits in steps that add up to its
// delay. With tiers it waits in one, the first that is long enough.
type Steps struct {
	Tick  time.Duration // the resolution of a ladder; 0 for tiers
	Waits []time.Duration
}

// Ticks rounds a delay up: a message is late by less than a tick, never early.
func (s Steps) Ticks(delay time.Duration) int64 {
	ticks := int64(delay / s.Tick)
	if delay%s.Tick != 0 {
		ticks++
	}
	return ticks
}

// Plan appends the numbers of the steps in which a message waits, longest first, each at most once:
// the broker drops what comes back to a queue. The delay must not be negative, and not above the
// longest.
//
// In a ladder it takes the longest step that fits, again and again. That makes up every delay if no
// step is longer than all shorter ones together and a tick. See [Steps.Gap].
func (s Steps) Plan(dst []int16, delay time.Duration) []int16 {
	if s.Tick == 0 {
		i, _ := slices.BinarySearch(s.Waits, delay)
		return append(dst, int16(i)) //nolint:gosec // at most mostSteps
	}
	left := time.Duration(s.Ticks(delay)) * s.Tick
	for i := len(s.Waits) - 1; left > 0; i-- {
		if s.Waits[i] <= left {
			dst = append(dst, int16(i)) //nolint:gosec // at most mostSteps
			left -= s.Waits[i]
		}
	}
	return dst
}

// Gap returns the shortest delay that the steps of a ladder do not add up to, although a longer one
// exists; 0 if there is none.
func (s Steps) Gap() time.Duration {
	sum := time.Duration(0)
	for _, wait := range s.Waits {
		if wait > sum+s.Tick {
			return sum + s.Tick
		}
		sum = min(sum+wait, s.Waits[len(s.Waits)-1]) // more than the longest is enough
	}
	return 0
}

// Hops returns how many steps a plan has at most, of any delay up to the longest.
func (s Steps) Hops(longest time.Duration) int {
	if s.Tick == 0 {
		return 1
	}
	most := func(longest time.Duration, below []int) int {
		hops, taken := 0, 0
		for i := len(below) - 1; i >= 0; i-- {
			if s.Waits[i] <= longest {
				hops = max(hops, taken+below[i]) // of the delays that do not take this step
				taken++
				longest -= s.Waits[i]
			}
		}
		return max(hops, taken)
	}
	below := make([]int, 0, len(s.Waits)) // by step: the most hops of a delay that is shorter
	for _, wait := range s.Waits {
		below = append(below, most(wait-s.Tick, below))
	}
	return most(longest, below)
}
