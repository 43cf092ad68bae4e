package fixedtiers

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

func small(t *testing.T, kind delayer.QueueType, change func(*Config)) blueprint {
	t.Helper()
	cfg := seed()
	cfg.Tiers = []time.Duration{time.Minute}
	if change != nil {
		change(&cfg)
	}
	b, _, err := newBlueprint(of(kind, cfg))
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
		Markers:   []topology.Marker{{Name: "delay", Config: "delay:p,max=1000000,refuse,quorum"}},
		Exchanges: []topology.Exchange{{Name: "delay.enter", Kind: "direct"}},
		Queues:    []topology.Queue{waiting("delay.1m.queue", "p.delivery")},
	}, b.plan())
	require.Equal(t, []topology.Binding{{Source: "delay.enter", Key: "~d:1m..", Target: "delay.1m.queue"}}, b.steps(0, 3).Bindings)
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

func TestClassicTopology(t *testing.T) {
	for overflow, want := range map[Overflow]string{Refuse: "reject-publish", Early: "drop-head"} {
		b := small(t, delayer.Classic, func(c *Config) { c.Overflow, c.MaxLength = overflow, 5 })
		args := amqp091.Table{
			"x-queue-type": "classic", "x-message-ttl": int64(60_000), "x-dead-letter-exchange": "p.delivery",
			"x-overflow": want, "x-max-length": int64(5),
		}
		require.Equal(t, []topology.Queue{{Name: "delay.1m.queue", Args: args}}, b.plan().Queues)
		args["x-dead-letter-exchange"] = "delay.exchange"
		require.Equal(t, []topology.Queue{{Name: "delay.route.1m.queue", Args: args, Optional: true}}, b.routes().Queues)
		require.Empty(t, b.routes().Bindings)
	}
}

// TestWhatMustAgree: tiers may differ between two Delayers that share queues, all else may not.
func TestWhatMustAgree(t *testing.T) {
	same := small(t, delayer.Classic, nil).config()
	require.Equal(t, same, small(t, delayer.Classic, func(c *Config) { c.Tiers, c.Rounding = []time.Duration{time.Hour}, Exact }).config())
	require.NotEqual(t, same, small(t, delayer.Quorum, nil).config())
	require.NotEqual(t, same, small(t, delayer.Classic, func(c *Config) { c.MaxLength = 7 }).config())
	require.NotEqual(t, same, small(t, delayer.Classic, func(c *Config) { c.Overflow = Early }).config())
	other := small(t, delayer.Classic, nil)
	other.owner = "q"
	require.NotEqual(t, same, other.config(), "the queues lead to one delivery exchange")
}

func TestKeysFit(t *testing.T) {
	b := small(t, delayer.Quorum, func(c *Config) { c.Tiers = []time.Duration{maxTier - 12345679*time.Millisecond} })
	require.LessOrEqual(t, len(b.key(0, message.MostWords)), 255)
}
