package binaryladder

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/internal/lib/objects"
)

func mustLadder(t testing.TB, tick time.Duration, steps Steps) *ladder {
	t.Helper()
	l, err := steps.ladder(tick)
	require.NoError(t, err)
	return l
}

// waits are the steps of a delay.
func (l *ladder) waits(delay time.Duration) []time.Duration {
	var out []time.Duration
	for _, step := range l.plan(nil, delay) {
		out = append(out, l.steps[step])
	}
	return out
}

func TestPlan_Seed(t *testing.T) {
	l := mustLadder(t, time.Second, Binary)
	require.Equal(t, []time.Duration{8 * time.Second, 2 * time.Second}, l.waits(10*time.Second), "10 s is 8 s and then 2 s")
	require.Equal(t, 268_435_455*time.Second, l.longest, "28 steps: 8.5 years")
	require.Equal(t, 28, l.hops)

	l = &ladder{tick: time.Second, steps: make([]time.Duration, 4)}
	require.Equal(t, "~d.~1.~0.~1.~0.shop", l.topicKey(10*time.Second, "shop"))
	require.Equal(t, "~d.*.*.~1.#", l.topicPattern(1, 1))
	require.Equal(t, "~d.~0.#", l.topicPattern(3, 0))
}

func TestPlan_Fewest(t *testing.T) {
	l := mustLadder(t, time.Second, "1s,2s,4s,5s,10s,20s,25s,30s")
	require.Equal(t, []time.Duration{30 * time.Second, 10 * time.Second}, l.waits(40*time.Second))
	require.Equal(t, []time.Duration{25 * time.Second, 4 * time.Second}, l.waits(29*time.Second))
	require.Equal(t, 97*time.Second, l.longest)
	require.Len(t, l.waits(l.longest), 8)
}

func TestPlan_RoundingUp(t *testing.T) {
	l := mustLadder(t, time.Second, Calendar)
	for delay, ticks := range map[time.Duration]int64{1: 1, time.Second: 1, time.Second + 1: 2, 0: 0, 15 * time.Second: 15} {
		require.Equal(t, ticks, l.ticks(delay), "%v", delay)
	}
	require.Empty(t, l.plan(nil, 0))
}

// solve is how many different steps, ascending and in ticks, add up to so many ticks: by trying
// them all, which is slow.
func solve(steps []int64, ticks int64) int {
	below := sumsBelow(steps)
	best := len(steps) + 1
	var try func(n int, left int64, used int)
	try = func(n int, left int64, used int) {
		switch {
		case left == 0:
			best = min(best, used)
			return
		case left < 0 || left > below[n] || used+1 >= best:
			return
		case left > int64(best-1-used)*steps[n-1]: // not with so few
			return
		}
		try(n-1, left-steps[n-1], used+1)
		try(n-1, left, used)
	}
	try(len(steps), ticks, 0)
	return best
}

// check: the plan adds up, descends, stays within the bound, and is as small as can be.
func check(t require.TestingT, l *ladder, delay time.Duration, exact bool) {
	plan := l.plan(nil, delay)
	sum, last, ticks := time.Duration(0), int16(len(l.steps)), make([]int64, len(l.steps))
	for _, step := range plan {
		require.Less(t, step, last, "each step once, descending")
		last, sum = step, sum+l.steps[step]
	}
	require.Equal(t, time.Duration(l.ticks(delay))*l.tick, sum, "%v", delay)
	require.LessOrEqual(t, len(plan), l.hops, "%v", delay)
	if !exact {
		return
	}
	for i, s := range l.steps {
		ticks[i] = int64(s / l.tick)
	}
	require.Len(t, plan, solve(ticks, l.ticks(delay)), "%v of %v", delay, l.steps)
}

// complete is a list from which every sum can be made. Units make groups of it.
func complete(t *rapid.T) ([]time.Duration, time.Duration) {
	tick := time.Duration(rapid.Int64Range(1, 100_000).Draw(t, "tick_ms")) * time.Millisecond
	n := rapid.IntRange(1, 20).Draw(t, "steps")
	sum, unit := int64(0), int64(1)
	var steps []time.Duration
	for range n {
		if rapid.IntRange(0, 3).Draw(t, "group") == 0 {
			if grown := unit * rapid.Int64Range(2, 9).Draw(t, "unit"); grown <= sum+1 {
				unit = grown
			}
		}
		step := unit * rapid.Int64Range(1, (sum+1)/unit).Draw(t, "step")
		if d := time.Duration(step) * tick; !slices.Contains(steps, d) && d <= longestStep {
			steps, sum = append(steps, d), sum+step
		}
	}
	slices.Sort(steps)
	return steps, tick
}

func TestPlan_ListsAgainstASlowSolver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps, tick := complete(t)
		l, err := List(steps...).ladder(tick)
		require.NoError(t, err, "%v", steps)
		for range 10 {
			check(t, l, time.Duration(rapid.Int64Range(0, int64(l.longest)).Draw(t, "delay")), true)
		}
	})
}

func TestPlan_CalendarAgainstASlowSolver(t *testing.T) {
	for _, c := range []struct {
		tick    time.Duration
		steps   Steps
		longest time.Duration // for the solver
	}{
		{time.Second, Calendar, 40 * time.Minute}, {time.Millisecond, Calendar, 5 * time.Second},
		{time.Minute, Calendar, 30 * day}, {100 * time.Millisecond, "+45m,+1m1s", 2 * time.Minute},
		{time.Second, Binary, 8 * 365 * day}, {time.Millisecond, Binary, 365 * day},
	} {
		l := mustLadder(t, c.tick, c.steps)
		random := rand.New(rand.NewPCG(1, 2))
		for range 20 {
			check(t, l, time.Duration(random.Int64N(int64(c.longest))), true)
		}
		for range 2000 {
			check(t, l, time.Duration(random.Int64N(int64(l.longest)))>>random.IntN(30), false)
		}
		check(t, l, l.longest, false)
	}
}

func TestPlan_NoAllocation(t *testing.T) {
	for _, tick := range []time.Duration{time.Second, time.Millisecond} {
		l := mustLadder(t, tick, Calendar)
		var steps [32]int16
		require.LessOrEqual(t, l.hops, len(steps))
		require.Zero(t, testing.AllocsPerRun(10, func() { l.plan(steps[:0], 100*day+9999*time.Second) }))
	}
}

func TestHops_OutOfRange(t *testing.T) {
	hops, err := Hops(Config{}, -1, objects.MaxTTL, objects.MaxTTL+1)
	require.NoError(t, err)
	require.Empty(t, hops[0])
	require.NotEmpty(t, hops[1])
	require.Empty(t, hops[2])
	_, err = Hops(Config{Steps: "2s"})
	require.Error(t, err)
}
