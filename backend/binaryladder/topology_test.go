package binaryladder

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

func small(t *testing.T, routing Routing) blueprint {
	return blueprint{
		ladder: mustLadder(t, time.Second, "1s,2s"), prefix: "p", kind: delayer.Quorum, routing: routing,
		stage: delivery.NewStage("p", true),
	}
}

func waiting(name string, ms int64, after string) topology.Queue {
	return topology.Queue{Name: name, Args: amqp091.Table{
		"x-queue-type": "quorum", "x-message-ttl": ms + 1, "x-dead-letter-exchange": after,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-max-length": objects.NeverFull,
		"x-queue-leader-locator": "balanced",
	}}
}

func TestSourceTopology(t *testing.T) {
	b := small(t, Source)
	require.Equal(t, topology.Plan{
		Markers: []topology.Exchange{{Name: "p.ladder", Kind: amqp091.ExchangeFanout, Alternate: b.config()}},
		Exchanges: []topology.Exchange{
			{Name: "p.ladder.enter", Kind: "direct"}, // without an alternate: what it cannot route is returned
			{Name: "p.ladder.step.1s", Kind: "direct", Alternate: "p.unroutable"},
			{Name: "p.ladder.step.2s", Kind: "direct", Alternate: "p.unroutable"},
		},
		Queues: []topology.Queue{
			waiting("p.ladder.wait.1s", 1000, "p.ladder.step.1s"),
			waiting("p.ladder.wait.2s", 2000, "p.ladder.step.2s"),
		},
	}, b.plan())
	require.Regexp(t, `^p:source,list:2:[0-9a-f]{8},tick=1s,quorum$`, b.config())
}

func TestTopicTopology(t *testing.T) {
	b := small(t, Topic)
	p := b.plan()
	require.Equal(t, []topology.Queue{
		waiting("p.ladder.wait.1s", 1000, "p.delivery"),
		waiting("p.ladder.wait.2s", 2000, "p.ladder.step.1s"),
	}, p.Queues)
	require.Equal(t, []topology.Binding{
		{Source: "p.ladder.step.1s", Key: "~d.*.~1.#", Target: "p.ladder.wait.1s"},
		{Source: "p.ladder.step.1s", Key: "~d.*.~0.#", Target: "p.delivery", ToExchange: true},
		{Source: "p.ladder.step.2s", Key: "~d.~1.#", Target: "p.ladder.wait.2s"},
		{Source: "p.ladder.step.2s", Key: "~d.~0.#", Target: "p.ladder.step.1s", ToExchange: true},
	}, p.Bindings)
}

// TestPlainTopology: the seed's ladder, of two levels.
func TestPlainTopology(t *testing.T) {
	b := small(t, Topic)
	queue := func(name string, ms int64, after string) topology.Queue {
		q := waiting(name, ms, after)
		q.Optional = true
		return q
	}
	require.Equal(t, topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: "p.ladder.exchange", Kind: "topic", Alternate: "p.unroutable", Optional: true},
			{Name: "p.ladder.due", Kind: "fanout", Alternate: "p.unroutable", Optional: true},
			{Name: "p.ladder.due.gate", Kind: "direct", Alternate: "p.discard", AutoDelete: true, Optional: true},
			{Name: "p.ladder.N0", Kind: "topic", Alternate: "p.unroutable", Optional: true},
			{Name: "p.ladder.N1", Kind: "topic", Alternate: "p.unroutable", Optional: true},
		},
		Queues: []topology.Queue{queue("p.ladder.Q0", 1000, "p.ladder.due"), queue("p.ladder.Q1", 2000, "p.ladder.N0")},
		Bindings: []topology.Binding{
			{Source: "p.ladder.due.gate", Key: "~d:gate", Target: "p.ladder.exchange", ToExchange: true},
			{Source: "p.ladder.due", Target: "p.ladder.exchange", ToExchange: true},
			{Source: "p.ladder.due", Target: "p.ladder.due.gate", ToExchange: true},
			{Source: "p.ladder.N0", Key: "*.1.#", Target: "p.ladder.Q0"},
			{Source: "p.ladder.N0", Key: "*.0.#", Target: "p.ladder.due", ToExchange: true},
			{Source: "p.ladder.N1", Key: "1.#", Target: "p.ladder.Q1"},
			{Source: "p.ladder.N1", Key: "0.#", Target: "p.ladder.N0", ToExchange: true},
		},
	}, b.plain())

	b.kind = delayer.Classic
	require.Equal(t, "p.ladder.exchange", b.plain().Queues[0].Args["x-dead-letter-exchange"], "as drawn")
	require.Len(t, b.plain().Exchanges, 3)

	for routing, plain := range map[Routing]bool{Source: false, Topic: true} {
		p, err := Topology(delayer.Options{URL: "amqp://localhost"}, Config{Routing: routing, Steps: "1s,2s"})
		require.NoError(t, err)
		require.Equal(t, plain, slices.ContainsFunc(p.Queues, func(q topology.Queue) bool { return q.Name == "delayer.ladder.Q1" }))
	}
}

func TestClassicQueuesHaveTheExactTTL(t *testing.T) {
	b := small(t, Source)
	b.kind = delayer.Classic
	require.Equal(t, amqp091.Table{
		"x-queue-type": "classic", "x-overflow": "reject-publish", "x-message-ttl": int64(2000), "x-dead-letter-exchange": "p.ladder.step.2s",
	}, b.plan().Queues[1].Args)
}

func TestConfig_NamesEveryFieldThatMatters(t *testing.T) {
	seen := map[string]bool{}
	ladder := func(tick time.Duration, steps Steps) ladder { return mustLadder(t, tick, steps) }
	for _, b := range []blueprint{
		{ladder: ladder(time.Second, Binary), kind: delayer.Quorum, routing: Source},
		{ladder: ladder(time.Second, Calendar), kind: delayer.Quorum, routing: Source},
		{ladder: ladder(time.Second, "+43m"), kind: delayer.Quorum, routing: Source},
		{ladder: ladder(time.Second, "+44m"), kind: delayer.Quorum, routing: Source},
		{ladder: ladder(time.Second, "1s,2s"), kind: delayer.Quorum, routing: Source},
		{ladder: ladder(time.Minute, Calendar), kind: delayer.Quorum, routing: Source},
		{ladder: ladder(time.Second, Binary), kind: delayer.Classic, routing: Source},
		{ladder: ladder(time.Second, Binary), kind: delayer.Quorum, routing: Topic},
	} {
		b.prefix = strings.Repeat("p", 128)
		require.False(t, seen[b.config()], b.config())
		require.LessOrEqual(t, len(b.config()), 255, "it is an exchange's name")
		seen[b.config()] = true
	}
}
