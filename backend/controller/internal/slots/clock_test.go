package slots

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// TestUntil: this process stands still after it has read the broker's time.
func TestUntil(t *testing.T) {
	now := (&clock{wall: brokertime.WallOf(t.Context())}).now()
	due := time.Now().Add(10 * time.Second)
	now.Mono -= time.Second
	left, at := until(due, now)
	require.InDelta(t, 11*time.Second, left, float64(500*time.Millisecond))
	require.Zero(t, due.Sub(at.Add(left)), "by the monotonic clock")
}
