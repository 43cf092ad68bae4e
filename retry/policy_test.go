package retry

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer"
)

func TestPolicy_Refused(t *testing.T) {
	exact := tiers
	exact.ExactTiers = true
	const s = time.Second
	for name, c := range map[string]struct {
		policy Policy
		limits delayer.Limits
		want   string
	}{
		"nothing":            {Policy{}, ladder, "intervals: invalid configuration: no interval"},
		"no interval":        {Policy{MaxAttempts: 5}, ladder, "no interval"},
		"negative attempts":  {Policy{First: s, MaxAttempts: -1}, ladder, "max_attempts"},
		"too many attempts":  {Policy{First: s, MaxAttempts: math.MaxInt}, ladder, "max_attempts"},
		"negative interval":  {intervals(s, -s), ladder, "intervals[1]: invalid configuration: -1s is negative"},
		"negative first":     {Policy{First: -s}, ladder, "first"},
		"negative cap":       {Policy{First: s, Cap: -s}, ladder, "cap"},
		"negative age":       {Policy{First: s, MaxAge: -s}, ladder, "max_age"},
		"shrinking":          {Policy{First: s, Factor: 0.5}, ladder, "factor"},
		"no number":          {Policy{First: s, Factor: math.NaN()}, ladder, "factor"},
		"jitter":             {Policy{First: s, Jitter: 1.5}, ladder, "jitter"},
		"jitter, no number":  {Policy{First: s, Jitter: math.NaN()}, ladder, "jitter"},
		"both":               {Policy{Intervals: []time.Duration{s}, First: s}, ladder, "the one or the other"},
		"factor alone":       {Policy{Factor: 2}, ladder, "no first interval"},
		"above max":          {intervals(s, 25*time.Hour), ladder, "intervals[1]: invalid configuration: 25h0m0s is longer than 24h0m0s"},
		"grows above max":    {Policy{First: time.Hour, Factor: 2}, ladder, "failure 6"},
		"grows without end":  {Policy{First: time.Hour, Factor: math.MaxFloat64}, ladder, "failure 2"},
		"between resolution": {intervals(1500 * time.Millisecond), ladder, "no multiple of the backend's resolution 1s: it would take 2s"},
		"no tier":            {intervals(4 * s), tiers, "4s is none of the backend's tiers [3s 10s 1m0s 1h0m0s]: the next is 10s"},
		"above tiers":        {intervals(2 * time.Hour), tiers, "2h0m0s is longer than 1h0m0s"},
		"computed, exact":    {Policy{First: 3 * s, Factor: 2}, exact, "failure 2"},
		"jitter, exact":      {Policy{Intervals: []time.Duration{3 * s}, Jitter: 0.1}, exact, "jitter"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.policy.validate(c.limits)
			require.ErrorIs(t, err, delayer.ErrConfig)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestPolicy_YAML(t *testing.T) {
	var service struct {
		Retry Policy `yaml:"retry"`
	}
	require.NoError(t, yaml.Unmarshal([]byte("retry:\n  intervals: [3s, 10s, 30s]\n  max_age: 1h"), &service))
	want := intervals(3*time.Second, 10*time.Second, 30*time.Second)
	want.MaxAge = time.Hour
	assert.Equal(t, want, service.Retry)
}
