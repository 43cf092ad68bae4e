package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestLimits_BelongToTheCaller(t *testing.T) {
	e := &Engine{limits: delayer.Limits{Tiers: []time.Duration{time.Minute}}}
	e.Limits().Tiers[0] = time.Nanosecond
	require.Equal(t, []time.Duration{time.Minute}, e.Limits().Tiers)
}

func TestFit_SaysYears(t *testing.T) {
	for most, want := range map[time.Duration]string{
		87600 * time.Hour: "87600h0m0s (10 years), the longest",
		720 * time.Hour:   "720h0m0s (30 days), the longest",
		36 * time.Hour:    "36h0m0s, the longest",
	} {
		_, err := fit(most+1, delayer.Limits{Max: most})
		require.ErrorContains(t, err, want)
	}
}
