package evacuate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drained runs a drain whose counts are given, and returns its states.
func drained(counts ...func(now time.Time) (Left, error)) (states []DrainState, err error) {
	d := Drain{
		Count: func(context.Context) (Left, error) {
			count := counts[0]
			counts = counts[1:]
			return count(time.Now())
		},
		Progress: func(s DrainState) { states = append(states, s) },
	}
	return states, d.Run(context.Background())
}

func unknown(n int) func(time.Time) (Left, error) {
	return func(time.Time) (Left, error) { return Left{Rows: n}, nil }
}

func TestDrain_Estimates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		states, err := drained(unknown(100), unknown(75), unknown(50), unknown(0))
		require.NoError(t, err)
		require.Len(t, states, 4)
		assert.True(t, states[0].Ends.IsZero(), "nothing is known after one count")
		assert.Equal(t, began.Add(2*time.Minute), states[1].Ends)
		assert.Equal(t, began.Add(2*time.Minute), states[2].Ends)
		assert.Equal(t, 90*time.Second, time.Since(began), "three pauses")
		assert.False(t, states[3].Arrives)
	})
}

func TestDrain_LatestIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		latest := began.Add(40 * time.Second)
		at := func(n int) func(time.Time) (Left, error) {
			return func(time.Time) (Left, error) { return Left{n, latest}, nil }
		}
		states, err := drained(at(9), at(3), at(1), unknown(0))
		require.NoError(t, err)
		assert.Equal(t, latest, states[0].Ends)
		waited := []time.Duration{}
		for _, s := range states {
			waited = append(waited, s.Waited)
		}
		assert.Equal(t, []time.Duration{0, 30 * time.Second, 41 * time.Second, 46 * time.Second}, waited)
	})
}

func TestDrain_Arrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		states, err := drained(unknown(5), unknown(6), unknown(0))
		require.NoError(t, err)
		assert.False(t, states[0].Arrives)
		assert.True(t, states[1].Arrives)
	})
}

func TestDrain_Fails(t *testing.T) {
	broken := errors.New("broken")
	_, err := drained(func(time.Time) (Left, error) { return Left{}, broken })
	require.ErrorIs(t, err, broken)
}

func TestDrain_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := Drain{Count: func(context.Context) (Left, error) { return Left{Rows: 1}, nil }, Progress: func(DrainState) { cancel() }}
		require.ErrorIs(t, d.Run(ctx), context.Canceled)
	})
}
