package fixedtiers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

func of(kind delayer.QueueType, cfg Config) Config {
	cfg.Options = delayer.Options{Prefix: "p", QueueType: kind}
	return cfg
}

// seed is the configuration of the second seed.
func seed() Config {
	return Config{
		Prefix: "delay", Tiers: []time.Duration{15 * time.Minute, time.Minute, 5 * time.Minute},
		Rounding: Up, MaxLength: 1_000_000, Overflow: Refuse,
	}
}

func TestNamesOfTiers(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"1m": time.Minute, "1m30s": 90 * time.Second, "100ms": 100 * time.Millisecond, "2h": 2 * time.Hour,
		"1s500ms": 1500 * time.Millisecond, "720h": 30 * 24 * time.Hour, "1h1ms": time.Hour + time.Millisecond,
	} {
		require.Equal(t, want, objects.DurationName(d))
	}
}

func TestNamesReadAsTheirDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, maxTier.Milliseconds()).Draw(t, "ms")) * time.Millisecond
		read, err := time.ParseDuration(objects.DurationName(d))
		require.NoError(t, err)
		require.Equal(t, d, read)
		require.NotContains(t, objects.DurationName(d), ".", "a dot separates the words of a key")
	})
}

func TestTheNextTier(t *testing.T) {
	b, _, err := newBlueprint(of(delayer.Quorum, seed()))
	require.NoError(t, err)
	for delay, want := range map[time.Duration]time.Duration{
		1: time.Minute, time.Minute: time.Minute, time.Minute + 1: 5 * time.Minute, 15 * time.Minute: 15 * time.Minute,
	} {
		require.Equal(t, want, b.tiers[b.next(delay)], "%v", delay)
	}
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	many := make([]time.Duration, 101)
	for i := range many {
		many[i] = time.Duration(i+1) * time.Second
	}
	for _, c := range []struct {
		change       func(*Config)
		object, want string
	}{
		{func(c *Config) { c.Prefix = strings.Repeat("p", 129) }, "prefix", "it has 129 bytes, at most 128 are allowed"},
		{func(c *Config) { c.Prefix = "delay\n" }, "prefix", "contains a control character"},
		{func(c *Config) { c.Prefix = "delay\xff" }, "prefix", "is not UTF-8"},
		{func(c *Config) { c.Prefix = "amq.delay" }, "prefix", `names that begin with "amq." belong to the broker`},
		{func(c *Config) { c.Tiers = many }, "tiers", "101 tiers are more than 100"},
		{func(c *Config) { c.Tiers = []time.Duration{time.Minute, time.Second, time.Minute} }, "tiers", "1m is listed twice"},
		{func(c *Config) { c.Tiers[1] = 1500 * time.Microsecond }, "tiers", "1.5ms is not a whole number of milliseconds"},
		{func(c *Config) { c.Tiers[1] = 0 }, "tiers", "0s is not"},
		{func(c *Config) { c.Tiers[1] = -time.Second }, "tiers", "-1s is not"},
		{func(c *Config) { c.Tiers[1] = objects.MaxTTL }, "tiers", "to ten years"},
		{func(c *Config) { c.Rounding = "down" }, "rounding", `"down" is neither up nor exact`},
		{func(c *Config) { c.MaxLength = -1 }, "max_length", "-1 is not a number of messages"},
		{func(c *Config) { c.Overflow = "late" }, "overflow", `"late" is neither refuse nor early`},
		{func(c *Config) { c.Overflow = Early }, "overflow", "early needs queue_type: classic"},
	} {
		cfg := seed()
		c.change(&cfg)
		_, err := Topology(of(delayer.Quorum, cfg))
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, "open fixedtiers."+c.object+": ")
		require.ErrorContains(t, err, c.want)
	}
	cfg := seed()
	cfg.Tiers = many[:100]
	d, err := Limits(of(delayer.Quorum, cfg))
	require.NoError(t, err)
	require.Len(t, d.Tiers, 100)
}

func TestLimits(t *testing.T) {
	cfg := seed()
	d, err := Limits(of(delayer.Classic, cfg))
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}, d.Tiers, "in order")
	require.Equal(t, 15*time.Minute, d.Max)
	require.False(t, d.ExactTiers)
	require.False(t, d.Replicated)
	require.Equal(t, 15*time.Minute, cfg.Tiers[0], "what was given is left as it was")
	cfg.Rounding = Exact
	d, err = Limits(of(delayer.Quorum, cfg))
	require.NoError(t, err)
	require.True(t, d.ExactTiers)
	require.True(t, d.SurvivesCrash)
}
