package brokertime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMachine: what counts is how long it was suspended. What its wall clock shows does not.
func TestMachine(t *testing.T) {
	var boot, mono time.Duration
	m := &machine{
		epoch: time.Now(), boot: time.Hour,
		sinceBoot: func() (time.Duration, bool) { return time.Hour + boot, true },
		mono:      func(time.Time) time.Duration { return mono },
	}
	passes := func(d time.Duration) time.Time { // by both clocks
		boot, mono = boot+d, mono+d
		return m.wall(m.epoch.Add(mono))
	}
	began := passes(0)
	require.Equal(t, time.Minute, passes(time.Minute).Sub(began))
	boot += 30 * time.Second
	require.Equal(t, time.Minute+30*time.Second, passes(0).Sub(began), "suspended")
	mono += 20 * time.Millisecond // this process stood still between the two readings
	boot += 20 * time.Millisecond
	boot -= 5 * time.Millisecond
	require.GreaterOrEqual(t, passes(0).Sub(began), time.Minute+30*time.Second, "which was no sleep")
	boot += 5 * time.Millisecond
	require.Equal(t, time.Minute+30*time.Second+20*time.Millisecond, passes(0).Sub(began))
}

// TestThisWall goes with the monotonic clock while nothing is suspended.
func TestThisWall(t *testing.T) {
	wall, began := ThisWall(), time.Now()
	first := wall(began)
	for range 1000 {
		now := time.Now()
		require.InDelta(t, now.Sub(began), wall(now).Sub(first), float64(time.Millisecond))
	}
}
