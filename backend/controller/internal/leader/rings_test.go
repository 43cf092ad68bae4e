package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDefault: all of a slot can go down as soon as it is opened, with two seconds to spare for
// what is not known of the broker's clock, and no slot is written for its next turn while it is
// open for this one.
func TestDefault(t *testing.T) {
	rings, slots := Default(), 0
	for i, r := range rings {
		slots += r.Slots
		require.LessOrEqual(t, r.Reach+r.Width+r.Linger, time.Duration(r.Slots)*r.Width, r.Name)
		if i > 0 {
			require.GreaterOrEqual(t, rings[i-1].Reach, r.Width+r.Lead+2*time.Second, r.Name)
			require.Less(t, rings[i-1].Reach, r.Reach)
		}
	}
	const most, others = 64, 8 // the log, the clock, candidates, and four of the delivery stage
	require.LessOrEqual(t, slots+others, most)
}

// hops is how many slots a record passes.
func (r Rings) hops(now, due time.Time) (n int) {
	read := make([]int64, len(r))
	for {
		t := r.place(now, due)
		for t.Level > 0 && t.Number <= read[t.Level] {
			t = r.at(t.Level-1, due)
		}
		n++
		if t.Level == 0 {
			return n
		}
		read[t.Level], now = t.Number, r.Opens(t)
	}
}

// TestRings_Hops: docs/design.md says these.
func TestRings_Hops(t *testing.T) {
	rings, now := Default(), time.Date(2026, 11, 28, 22, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	most := map[time.Duration]int{}
	want := map[time.Duration]int{
		30 * time.Second: 1, 2 * time.Minute: 2, 30 * time.Minute: 4, time.Hour: 4, 12 * time.Hour: 6, 3 * day: 7, 30 * day: 28, 365 * day: 279,
	}
	for range 3000 {
		now = now.Add(61 * time.Second)
		for delay := range want {
			most[delay] = max(most[delay], rings.hops(now, now.Add(delay)))
		}
	}
	require.Equal(t, want, most)
}
