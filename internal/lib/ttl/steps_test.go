package ttl

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSteps_Plan(t *testing.T) {
	const s = time.Second
	binary := Steps{Tick: s, Waits: []time.Duration{s, 2 * s, 4 * s, 8 * s}}
	tiers := Steps{Waits: []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}}
	for _, c := range []struct {
		steps Steps
		delay time.Duration
		want  []int16
	}{
		{binary, 10 * s, []int16{3, 1}},
		{binary, 15 * s, []int16{3, 2, 1, 0}},
		{binary, 0, nil},
		{binary, 1, []int16{0}},
		{binary, s + 1, []int16{1}},
		{tiers, 1, []int16{0}},
		{tiers, time.Minute, []int16{0}},
		{tiers, time.Minute + 1, []int16{1}},
		{tiers, 15 * time.Minute, []int16{2}},
	} {
		require.Equal(t, c.want, c.steps.Plan(nil, c.delay), "%v of %v", c.delay, c.steps)
	}
	require.Equal(t, 1, tiers.Hops(15*time.Minute))
}

// TestSteps_AddUp: steps without a gap make up every delay, each of them once, and Hops is the
// longest of all plans.
func TestSteps_AddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Steps{Tick: time.Duration(rapid.Int64Range(1, 1000).Draw(t, "tick")) * time.Millisecond}
		sum := time.Duration(0)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			wait := time.Duration(rapid.Int64Range(1, min(int64(sum/s.Tick)+1, 100)).Draw(t, "step")) * s.Tick
			if !slices.Contains(s.Waits, wait) {
				s.Waits, sum = append(s.Waits, wait), sum+wait
			}
		}
		slices.Sort(s.Waits)
		require.Zero(t, s.Gap())
		hops := 0
		for delay := time.Duration(0); delay <= sum; delay += s.Tick {
			plan := s.Plan(nil, delay)
			got, last := time.Duration(0), int16(len(s.Waits))
			for _, step := range plan {
				require.Less(t, step, last, "each step once, descending")
				got, last = got+s.Waits[step], step
			}
			require.Equal(t, delay, got)
			hops = max(hops, len(plan))
			require.LessOrEqual(t, hops, s.Hops(delay))
		}
		require.Equal(t, hops, s.Hops(sum))
	})
}

func TestSteps_PlanAllocatesNothing(t *testing.T) {
	s := Steps{Tick: time.Second}
	for i := range 28 {
		s.Waits = append(s.Waits, time.Second<<i)
	}
	var steps [32]int16
	delay := time.Duration(rand.Int64N(1<<28)) * time.Second
	require.Zero(t, testing.AllocsPerRun(10, func() { s.Plan(steps[:0], delay) }))
}
