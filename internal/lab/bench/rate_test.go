package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

func TestSearchFindsTheLimit(t *testing.T) {
	const first = 500
	for _, limit := range []float64{17, 30, 499, 500, 501, 777, 3000, 12_345, 63_999} {
		var tried []float64
		best, err := search(first, 64_000, func(rate float64) (bool, error) {
			tried = append(tried, rate)
			return rate <= limit, nil
		})
		require.NoError(t, err)
		assert.LessOrEqual(t, best, limit)
		assert.Greater(t, best*1.05, limit, "to 5 %%: tried %v", tried)
		assert.LessOrEqual(t, len(tried), 13, "limit %v: %v", limit, tried)
		for _, rate := range tried { // overload takes long to clear away
			assert.LessOrEqual(t, rate, max(2*limit, first))
		}
	}
}

func TestSearchEnds(t *testing.T) {
	best, err := search(500, 2000, func(float64) (bool, error) { return true, nil })
	require.NoError(t, err)
	assert.InDelta(t, 2000.0, best, 0, "at the most that is looked for")

	probes := 0
	best, err = search(500, 2000, func(float64) (bool, error) { probes++; return false, nil })
	require.NoError(t, err)
	assert.Zero(t, best)
	assert.Equal(t, 6, probes, "500 to 15, and no further")

	broken := errors.New("broken")
	best, err = search(500, 2000, func(rate float64) (bool, error) {
		if rate > 500 {
			return false, broken
		}
		return true, nil
	})
	require.ErrorIs(t, err, broken)
	assert.InDelta(t, 500.0, best, 0, "what was found until then")
}

// steady is a probe's messages, published and arriving late by so much.
func steady(n int, rate float64, behind, late time.Duration) []sample {
	out := make([]sample, n)
	for i := range out {
		at := time.Second + time.Duration(float64(i)/rate*float64(time.Second))
		out[i] = sample{
			Delay: time.Second, Intended: at, Asked: at + behind, Answered: at + behind + time.Millisecond, Outcome: account.Confirmed,
			Arrived: at + time.Second + max(late, behind), Copies: 1,
		}
	}
	return out
}

func TestProbesAreJudged(t *testing.T) {
	r := topRate{limit: 100 * time.Millisecond, settle: time.Second}
	assess := func(s []sample) report.Probe { return r.assess(100, s) }
	assert.Equal(t, "", assess(steady(300, 100, 0, 90*time.Millisecond)).Reason)
	assert.Equal(t, "late", assess(steady(300, 100, 0, 110*time.Millisecond)).Reason)
	assert.Equal(t, "", assess(steady(300, 100, 60*time.Millisecond, 90*time.Millisecond)).Reason, "behind, and in time")
	slow := steady(300, 100, 60*time.Millisecond, 110*time.Millisecond)
	r.concurrency = 1
	assert.Equal(t, "generator", assess(slow).Reason, "a publisher was free, and published late")
	r.concurrency = 5
	for i := range slow {
		slow[i].Answered = slow[i].Asked + 50*time.Millisecond // at 100 a second five wait all the time
	}
	assert.Equal(t, "confirms", assess(slow).Reason)
	r.concurrency = 8
	assert.Equal(t, "generator", assess(slow).Reason)
	r.concurrency = 100
	for i := range slow {
		slow[i].Answered = slow[i].Asked + time.Second
	}
	assert.Equal(t, "confirms", assess(slow).Reason, "for the last ones they wait after there is nothing more to publish")

	lost := steady(300, 100, 0, 0)
	lost[7].Copies = 0
	assert.Equal(t, "lost", assess(lost).Reason, "also in the beginning that does not count otherwise")

	early := func(by time.Duration) []sample {
		s := steady(300, 100, 0, 0)
		s[7].Arrived -= by
		return s
	}
	assert.True(t, assess(early(time.Millisecond-1)).Passed, "a TTL is no more precise")
	assert.Equal(t, "lost", assess(early(time.Millisecond)).Reason)

	cold := steady(300, 100, 0, 0)
	for i := range 100 {
		cold[i].Arrived += time.Minute
	}
	assert.True(t, assess(cold).Passed, "the first second is for settling")
	assert.False(t, assess(steady(1, 100, 0, 0)[:1:1][:0:0]).Passed, "nothing is no success")
}

// TestAProbeHasASecondAttempt: one disturbance is not the limit, two are.
func TestAProbeHasASecondAttempt(t *testing.T) {
	tried := func(disturbed int) report.Run {
		r := topRate{
			common: quickly(0, 2*time.Second), length: 2 * time.Second,
			limit: 100 * time.Millisecond, first: 10, most: 10, budget: time.Hour,
		}
		probes, asked := 0, 0
		m := &memory{fate: func(d time.Duration) []time.Duration {
			if d == warmUpDelay {
				return []time.Duration{d}
			}
			if asked++; asked%20 == 1 {
				probes++
			}
			if probes <= disturbed {
				d += time.Second
			}
			return []time.Duration{d}
		}}
		r.concurrency = 1
		run, err := played(t, r, Subject{}, m)
		require.NoError(t, err)
		return run.Run
	}
	assert.InDelta(t, 10, tried(0).MaxRate, 0)
	assert.Len(t, tried(0).Probes, 1)
	assert.InDelta(t, 10, tried(1).MaxRate, 0)
	assert.Len(t, tried(1).Probes, 2)
	assert.Less(t, tried(2).MaxRate, 10.0)
}

func TestChosenScenarios(t *testing.T) {
	for _, c := range []struct {
		b    Benchmark
		want []string
	}{
		{Benchmark{Size: Quick}, []string{"accuracy", "cost", "hol"}},
		{Benchmark{}, []string{"accuracy", "cost", "hol", "rate"}},
		{Benchmark{Scenarios: []string{"backlog", "hol"}}, []string{"hol", "backlog"}},
		{Benchmark{Size: Full}, Scenarios()},
	} {
		var names []string
		for _, s := range c.b.chosen() {
			names = append(names, s.about().Name)
		}
		assert.Equal(t, c.want, names)
	}
	assert.Equal(t, []string{"accuracy", "cost", "hol", "rate", "backlog"}, Scenarios())
}
