package fixedtiers

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// FuzzTiers: tiers that are accepted are in order, each once, have a name each, and any delay up to
// the longest waits in the first that is long enough.
func FuzzTiers(f *testing.F) {
	f.Add([]byte{0, 0, 0, 5, 0, 0, 0, 1}, int64(3*time.Millisecond), "delay")
	f.Add([]byte{0, 0, 0, 0}, int64(0), "")
	f.Add([]byte{}, int64(-1), "amq.x")
	f.Fuzz(func(t *testing.T, raw []byte, delay int64, prefix string) {
		var tiers []time.Duration
		for ; len(raw) >= 4; raw = raw[4:] {
			tiers = append(tiers, time.Duration(int32(binary.BigEndian.Uint32(raw)))*time.Millisecond)
		}
		cfg := seed()
		cfg.Tiers, cfg.Prefix = tiers, prefix
		b, _, err := newBlueprint(of(delayer.Quorum, cfg))
		if err != nil {
			require.ErrorIs(t, err, delayer.ErrConfig)
			return
		}
		require.True(t, slices.IsSorted(b.tiers))
		names := map[string]bool{}
		for _, tier := range b.tiers {
			read, err := time.ParseDuration(objects.DurationName(tier))
			require.NoError(t, err)
			require.Equal(t, tier, read)
			names[objects.DurationName(tier)] = true
		}
		require.Len(t, names, len(b.tiers))
		if d := time.Duration(delay); d > 0 && d <= b.tiers[len(b.tiers)-1] {
			i := b.next(d)
			require.GreaterOrEqual(t, b.tiers[i], d, "never early")
			require.True(t, i == 0 || b.tiers[i-1] < d, "the first that is long enough")
		}
	})
}
