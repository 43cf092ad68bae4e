package delivery

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStreak: a Mover that may not read its queue, or whose queue is out of order.
func TestStreak(t *testing.T) {
	var s streak
	failed := errors.New("no")
	var all time.Duration
	const attempts = 100
	for range attempts {
		all += s.pause(failed, time.Millisecond)
	}
	require.Greater(t, all, (attempts-7)*longestPause)
	require.Equal(t, firstPause, s.pause(failed, 2*longestPause), "it was at work for a while")
	require.Equal(t, 2*firstPause, s.pause(failed, 0))
	require.Equal(t, standbyPause, s.pause(nil, 0), "another process has the lock")
	require.Equal(t, firstPause, s.pause(failed, 0))
}
