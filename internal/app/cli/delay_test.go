package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDelay(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "250ms": 250 * time.Millisecond, "36h": 36 * time.Hour, "2d": 2 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour,
		"0d1s": time.Second, "-1s": -time.Second, "-1d": -day, "3650d": 3650 * day,
	} {
		var w Delay
		require.NoError(t, w.UnmarshalText([]byte(text)), text)
		assert.Equal(t, want, time.Duration(w), text)
	}
	for _, text := range []string{"", "90", "d", "2days", "1d-1h", "1d+1h", "1d1d", "NaNd", "Infd", "999999d", "9223372036s1d", "1e300d", "90 s", "1_0d", "0x1p0d", "1e2d", "+1d"} {
		var w Delay
		assert.Error(t, w.UnmarshalText([]byte(text)), text)
	}
}
