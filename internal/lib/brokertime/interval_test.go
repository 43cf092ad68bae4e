package brokertime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestInterval: what questions tell of a clock that is ahead by an hour.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = time.Hour
		i := NewInterval()
		_, ok := i.Read()
		require.False(t, ok)
		ask := func(below, above time.Duration) time.Duration {
			sent := time.Now()
			time.Sleep(2 * time.Millisecond)
			shows := time.Now().Add(ahead)
			return i.Learn(sent, time.Now(), shows.Add(-below), shows.Add(above))
		}
		require.Zero(t, ask(time.Hour, time.Hour))
		r, ok := i.Read()
		require.False(t, ok, "too wide to be used")
		require.Less(t, r.Latest.Sub(r.Earliest), 3*time.Hour, "but a beginning")
		require.Zero(t, ask(10*time.Millisecond, 20*time.Millisecond))
		require.Zero(t, ask(time.Millisecond, time.Millisecond))
		r, ok = i.Read()
		require.True(t, ok)
		require.Less(t, r.Latest.Sub(r.Earliest), 5*time.Millisecond)
		require.Equal(t, 2*time.Millisecond, i.RoundTrip())
		truth := time.Now().Add(ahead)
		require.False(t, r.Earliest.After(truth) || r.Latest.Before(truth))

		due, ok := i.At(time.Now().Add(time.Second), time.Now())
		require.True(t, ok)
		require.WithinRange(t, due, truth.Add(time.Second), truth.Add(time.Second+5*time.Millisecond))
		require.InDelta(t, time.Minute, ask(-time.Minute, time.Minute+time.Millisecond), float64(10*time.Millisecond), "the clock was set")
		time.Sleep(intervalStale + 1)
		_, ok = i.Read()
		require.False(t, ok, "stale")
	})
}

// TestSteady: what is known to be exact all at once takes effect bit by bit.
func TestSteady(t *testing.T) {
	var s Steady
	require.Equal(t, time.Second, s.Ahead(time.Second, 0))
	require.Equal(t, 900*time.Millisecond, s.Ahead(0, 200*time.Millisecond), "at half the pace of time")
	require.Equal(t, time.Second, s.Ahead(time.Second, 200*time.Millisecond))
	require.Equal(t, -time.Hour, s.Ahead(-time.Hour, 300*time.Millisecond), "it was set")
}
