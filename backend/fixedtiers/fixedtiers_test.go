package fixedtiers

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

func of(kind delayer.QueueType) delayer.Options {
	return delayer.Options{Prefix: "p", QueueType: kind}
}

// seed is the configuration of the second seed.
func seed() Config {
	return Config{
		Prefix: "delay", Tiers: []time.Duration{15 * time.Minute, time.Minute, 5 * time.Minute},
		Rounding: Up, MaxLength: 1_000_000,
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
		{func(c *Config) { c.Prefix = "amq.delay" }, "prefix", `names that begin with "amq." belong to the broker`},
		{func(c *Config) { c.Tiers = many }, "tiers", "101 tiers are more than 100"},
		{func(c *Config) { c.Tiers = []time.Duration{time.Minute, time.Second, time.Minute} }, "tiers", "1m is listed twice"},
		{func(c *Config) { c.Tiers[1] = 1500 * time.Microsecond }, "tiers", "1.5ms is not a whole number of milliseconds"},
		{func(c *Config) { c.Tiers[1] = 0 }, "tiers", "0s is not"},
		{func(c *Config) { c.Tiers[1] = -time.Second }, "tiers", "-1s is not"},
		{func(c *Config) { c.Tiers[1] = objects.MaxTTL }, "tiers", "to ten years"},
		{func(c *Config) { c.Rounding = "down" }, "rounding", `"down" is neither up nor exact`},
		{func(c *Config) { c.MaxLength = -1 }, "max_length", "-1 is not a number of messages"},
	} {
		cfg := seed()
		c.change(&cfg)
		_, err := Topology(of(delayer.Quorum), cfg)
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, "open fixedtiers."+c.object+": ")
		require.ErrorContains(t, err, c.want)
	}
	cfg := seed()
	cfg.Tiers = many[:100]
	d, err := Limits(of(delayer.Quorum), cfg)
	require.NoError(t, err)
	require.Len(t, d.Tiers, 100)
}

func TestLimits(t *testing.T) {
	cfg := seed()
	d, err := Limits(of(delayer.Classic), cfg)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}, d.Tiers, "in order")
	require.Equal(t, 15*time.Minute, d.Max)
	require.False(t, d.ExactTiers)
	require.False(t, d.Replicated)
	require.Equal(t, 15*time.Minute, cfg.Tiers[0], "what was given is left as it was")
	cfg.Rounding = Exact
	d, err = Limits(of(delayer.Quorum), cfg)
	require.NoError(t, err)
	require.True(t, d.ExactTiers)
	require.True(t, d.SurvivesCrash)
}

// TestConfig_Prefix: tiers of different prefixes never meet.
func TestConfig_Prefix(t *testing.T) {
	for _, c := range []struct{ prefix, tiers, want string }{
		{"delayer", "", "delay"},
		{"shop", "", "shop.delay"},
		{"shop", "mine", "mine"},
	} {
		require.Equal(t, c.want, Config{Prefix: c.tiers}.withDefaults(c.prefix).Prefix)
	}
	require.Equal(t, Default(), Config{}.withDefaults("delayer"))
}

func small(t *testing.T, kind delayer.QueueType, change func(*Config)) blueprint {
	t.Helper()
	cfg := seed()
	cfg.Tiers = []time.Duration{time.Minute}
	if change != nil {
		change(&cfg)
	}
	b, _, err := newBlueprint(of(kind), cfg)
	require.NoError(t, err)
	return b
}

func TestTopology(t *testing.T) {
	b := small(t, delayer.Quorum, nil)
	waiting := func(name, after string) topology.Queue {
		return topology.Queue{Name: name, Args: amqp091.Table{
			"x-queue-type": "quorum", "x-message-ttl": int64(60_001), "x-dead-letter-exchange": after,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-max-length": int64(1_000_000), "x-queue-leader-locator": "balanced",
		}}
	}
	require.Equal(t, topology.Plan{
		Markers:   []topology.Exchange{{Name: "delay", Kind: amqp091.ExchangeFanout, Alternate: "delay:p,max=1000000,quorum"}},
		Exchanges: []topology.Exchange{{Name: "delay.enter", Kind: "direct"}},
		Queues:    []topology.Queue{waiting("delay.1m.queue", "p.delivery")},
	}, b.plan())
	route := waiting("delay.route.1m.queue", "delay.route")
	route.Optional = true
	require.Equal(t, topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: "delay.exchange", Kind: "topic", Alternate: "p.unroutable", Optional: true},
			{Name: "delay.route", Kind: "fanout", Alternate: "p.unroutable", Optional: true},
			{Name: "delay.route.gate", Kind: "direct", Alternate: "p.discard", AutoDelete: true, Optional: true},
		},
		Queues: []topology.Queue{route},
		Bindings: []topology.Binding{
			{Source: "delay.route.gate", Key: "~d:gate", Target: "delay.exchange", ToExchange: true},
			{Source: "delay.route", Target: "delay.exchange", ToExchange: true},
			{Source: "delay.route", Target: "delay.route.gate", ToExchange: true},
		},
	}, b.routes())
}

func TestTopology_Classic(t *testing.T) {
	b := small(t, delayer.Classic, func(c *Config) { c.MaxLength = 5 })
	args := amqp091.Table{
		"x-queue-type": "classic", "x-message-ttl": int64(60_000), "x-dead-letter-exchange": "p.delivery",
		"x-overflow": "reject-publish", "x-max-length": int64(5),
	}
	require.Equal(t, []topology.Queue{{Name: "delay.1m.queue", Args: args}}, b.plan().Queues)
	args["x-dead-letter-exchange"] = "delay.exchange"
	require.Equal(t, []topology.Queue{{Name: "delay.route.1m.queue", Args: args, Optional: true}}, b.routes().Queues)
	require.Empty(t, b.routes().Bindings)
}

// TestWhatMustAgree: tiers may differ between two Delayers that share queues, all else may not.
func TestWhatMustAgree(t *testing.T) {
	same := small(t, delayer.Classic, nil).config()
	require.Equal(t, same, small(t, delayer.Classic, func(c *Config) { c.Tiers, c.Rounding = []time.Duration{time.Hour}, Exact }).config())
	require.NotEqual(t, same, small(t, delayer.Quorum, nil).config())
	require.NotEqual(t, same, small(t, delayer.Classic, func(c *Config) { c.MaxLength = 7 }).config())
	other := small(t, delayer.Classic, nil)
	other.owner = "q"
	require.NotEqual(t, same, other.config(), "the queues lead to one delivery exchange")
}
