package ttl

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// queues are a ladder of two steps.
func queues() Queues {
	return Queues{
		Stage: delivery.NewStage("p", true), Enter: "p.enter",
		Steps:    Steps{Tick: time.Second, Waits: []time.Duration{time.Second, 2 * time.Second}},
		Queue:    func(d time.Duration) string { return "p.wait." + objects.DurationName(d) },
		Exchange: func(d time.Duration) string { return "p.step." + objects.DurationName(d) },
	}
}

func TestQueues_Leaving(t *testing.T) {
	s := &strategy{queues: queues()}
	on := topology.Binding{Source: "p.step.2s", Key: "~d:2s>1s.", Target: "p.wait.1s"}
	out := topology.Binding{Source: "p.step.1s", Key: "~d:1s>end.", Target: "p.delivery", ToExchange: true}
	past := topology.Binding{Source: "p.step.2s", Key: "~d:2s>end.", Target: "p.delivery", ToExchange: true}
	require.Equal(t, []topology.Binding{past, on}, s.Leaving("p.wait.2s", 2).Bindings)
	require.Equal(t, []topology.Binding{out}, s.Leaving("p.wait.1s", 2).Bindings)
	require.Empty(t, s.Leaving("p.wait.3s", 2))

	s.queues.Exchange = nil // the queues' dead-lettering leads on
	require.Empty(t, s.Leaving("p.wait.2s", 2))
	require.Equal(t, topology.Binding{Source: "p.enter", Key: "~d:>2s..", Target: "p.wait.2s"}, s.queues.binding(link{outside, 1}, 3))
}

// TestQueues_Links: each has a key of its own, within what Growth says.
func TestQueues_Links(t *testing.T) {
	q := queues()
	q.Steps.Waits = nil
	for i := range 40 {
		q.Steps.Waits = append(q.Steps.Waits, time.Millisecond<<i)
	}
	for _, linked := range []bool{true, false} {
		growth := (&strategy{queues: q}).Growth()
		keys := map[string]link{}
		n := len(q.Steps.Waits)
		for _, k := range q.all() {
			key := q.key(k, 1)
			require.NotContains(t, keys, key)
			require.NotContains(t, key, ".")
			require.LessOrEqual(t, len(key), growth.KeySize)
			keys[key] = k
		}
		require.Equal(t, 2, strings.Count(q.key(link{outside, 0}, 3), "."), "as many words as asked for")
		if linked {
			require.Len(t, keys, n*(n-1)/2+2*n)
		} else {
			require.Len(t, keys, n)
		}
		q.Exchange = nil
	}
}

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
