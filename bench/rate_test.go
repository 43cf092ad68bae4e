package bench

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSearchFindsTheLimit(t *testing.T) {
	look := search{first: 500, least: 8, most: 64_000, accuracy: 1.15, probes: 20}
	for _, limit := range []float64{17, 30, 499, 500, 501, 777, 3000, 12_345, 63_999} {
		var tried []float64
		best, err := look.run(func(rate float64) (bool, error) {
			tried = append(tried, rate)
			return rate <= limit, nil
		})
		require.NoError(t, err)
		assert.LessOrEqual(t, best, limit)
		assert.Greater(t, best*look.accuracy, limit, "tried %v", tried)
		assert.LessOrEqual(t, len(tried), 12, "limit %v: %v", limit, tried)
		for _, rate := range tried { // overload takes long to clear away
			assert.LessOrEqual(t, rate, max(2*limit, look.first))
		}
	}
}

func TestSearchEnds(t *testing.T) {
	look := search{first: 500, least: 8, most: 2000, accuracy: 1.15, probes: 20}
	best, err := look.run(func(float64) (bool, error) { return true, nil })
	require.NoError(t, err)
	assert.InDelta(t, 2000.0, best, 0, "at the most that is looked for")

	probes := 0
	best, err = look.run(func(float64) (bool, error) { probes++; return false, nil })
	require.NoError(t, err)
	assert.Zero(t, best)
	assert.Equal(t, 6, probes, "500 to 15, and no further")

	broken := errors.New("broken")
	best, err = look.run(func(rate float64) (bool, error) {
		if rate > 500 {
			return false, broken
		}
		return true, nil
	})
	require.ErrorIs(t, err, broken)
	assert.InDelta(t, 500.0, best, 0, "what was found until then")

	look.probes = 3
	probes = 0
	_, err = look.run(func(rate float64) (bool, error) { probes++; return rate < math.Pi*300, nil })
	require.NoError(t, err)
	assert.Equal(t, 3, probes)
}

// steady is a probe's messages, published and arriving late by so much.
func steady(n int, rate float64, behind, late time.Duration) []Sample {
	out := make([]Sample, n)
	for i := range out {
		at := time.Second + time.Duration(float64(i)/rate*float64(time.Second))
		out[i] = Sample{
			Delay: time.Second, Intended: at, Sent: at + behind, Returned: at + behind + time.Millisecond,
			Arrived: at + time.Second + max(late, behind), Copies: 1,
		}
	}
	return out
}

func TestProbesAreJudged(t *testing.T) {
	r := Rate{Limit: 100 * time.Millisecond, Settle: time.Second}
	assess := func(s []Sample) Probe { return r.assess(100, s) }
	assert.Equal(t, "", assess(steady(300, 100, 0, 90*time.Millisecond)).Reason)
	assert.Equal(t, TooLate, assess(steady(300, 100, 0, 110*time.Millisecond)).Reason)
	assert.Equal(t, "", assess(steady(300, 100, 60*time.Millisecond, 90*time.Millisecond)).Reason, "behind, and in time")
	assert.Equal(t, TooSlow, assess(steady(300, 100, 60*time.Millisecond, 110*time.Millisecond)).Reason)

	lost := steady(300, 100, 0, 0)
	lost[7].Copies = 0
	assert.Equal(t, NotAllThere, assess(lost).Reason, "also in the beginning that does not count otherwise")

	cold := steady(300, 100, 0, 0)
	for i := range 100 {
		cold[i].Arrived += time.Minute
	}
	assert.True(t, assess(cold).Passed, "the first second is for settling")
	assert.False(t, assess(steady(1, 100, 0, 0)[:1:1][:0:0]).Passed, "nothing is no success")
}
