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
