package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestAMessageCostsWhatTheIdleBrokerDoesNot: what the broker uses anyway is taken off once, but not
// what it uses while it starts.
func TestAMessageCostsWhatTheIdleBrokerDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share, used, since := 0.25, time.Duration(0), time.Now()
		starts := since.Add(settling)
		m := newMeter(t.Context(), &fake{cpu: func() time.Duration {
			used, since = used+time.Duration(share*float64(time.Since(since)))+max(0, time.Until(starts)), time.Now()
			return used
		}})
		before := m.read()
		share = 0.75
		time.Sleep(4 * time.Second)
		assert.InDelta(t, 2e6/100, m.perMessage(before, m.read(), 100), 1, "half a core for 4 s is 2 s, of 100 messages")
		assert.Zero(t, m.perMessage(before, reading{}, 100), "not known")
		assert.Zero(t, m.perMessage(before, m.read(), 0))
	})
}
