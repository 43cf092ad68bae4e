package conformance_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/conformance"
)

// TestReceiver_SlowIsNotMissing: as long as messages keep coming nothing is called missing. It was,
// 6,452 messages of 19,663, on a machine with other work.
func TestReceiver_SlowIsNotMissing(t *testing.T) {
	const patience = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		arrivals := map[string]time.Duration{"a": 25 * time.Second, "b": 50 * time.Second, "c": 75 * time.Second}
		require.Empty(t, conformance.Receive(arrivals, []string{"c", "a", "b"}, patience, patience))

		begin := time.Now()
		require.Equal(t, []string{"lost"}, conformance.Receive(arrivals, []string{"c", "lost", "a"}, patience, patience))
		require.Less(t, time.Since(begin), 5*patience, "it ends when nothing comes any more")
	})
}
