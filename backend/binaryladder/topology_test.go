package binaryladder

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/topology"
)

func small(t *testing.T, routing Routing, bits int) blueprint {
	return blueprint{
		ladder: mustLadder(t, 2, bits, time.Second), names: names{"p"}, kind: delayer.Quorum, routing: routing,
		stage: delivery.NewStage("p", true),
	}
}

func waiting(name string, ms int64, after string) topology.Queue {
	return topology.Queue{Name: name, Args: amqp091.Table{
		"x-queue-type": "quorum", "x-message-ttl": ms + 1, "x-dead-letter-exchange": after,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-max-length": topology.NeverFull,
	}}
}

func TestSourceTopology(t *testing.T) {
	b := small(t, Source, 1)
	require.Equal(t, topology.Plan{
		Markers: []topology.Marker{{Name: "p.ladder", Config: "p:routing=source,levels=2,bits=1,tick=1s,quorum"}},
		Exchanges: []topology.Exchange{
			{Name: "p.ladder.enter", Kind: "direct"}, // without an alternate: what it cannot route is returned
			{Name: "p.ladder.level.00", Kind: "direct", Alternate: "p.unroutable"},
			{Name: "p.ladder.level.01", Kind: "direct", Alternate: "p.unroutable"},
		},
		Queues: []topology.Queue{
			waiting("p.ladder.wait.00", 1000, "p.ladder.level.00"),
			waiting("p.ladder.wait.01", 2000, "p.ladder.level.01"),
		},
	}, b.plan())
	require.Equal(t, b.plan(), b.all())

	var steps topology.Plan // of 3 s, for a key of two words
	for _, k := range itinerary(b.ladder.hops(3 * time.Second)) {
		steps = steps.Add(b.steps(k, 2))
	}
	require.Equal(t, []topology.Binding{
		{Source: "p.ladder.enter", Key: "~d:>1.", Target: "p.ladder.wait.01"},
		{Source: "p.ladder.level.01", Key: "~d:1>0.", Target: "p.ladder.wait.00"},
		{Source: "p.ladder.level.00", Key: "~d:0>end.", Target: "p.delivery", ToExchange: true},
	}, steps.Bindings)
	require.Empty(t, steps.Queues)
}

func TestTopicTopology(t *testing.T) {
	p := small(t, Topic, 1).plan()
	require.Equal(t, []topology.Queue{
		waiting("p.ladder.wait.00", 1000, "p.delivery"),
		waiting("p.ladder.wait.01", 2000, "p.ladder.level.00"),
	}, p.Queues)
	require.Equal(t, []topology.Binding{
		{Source: "p.ladder.level.00", Key: "~d.*.~1.#", Target: "p.ladder.wait.00"},
		{Source: "p.ladder.level.00", Key: "~d.*.~0.#", Target: "p.delivery", ToExchange: true},
		{Source: "p.ladder.level.01", Key: "~d.~1.#", Target: "p.ladder.wait.01"},
		{Source: "p.ladder.level.01", Key: "~d.~0.#", Target: "p.ladder.level.00", ToExchange: true},
	}, p.Bindings)
}

func TestQueuesOfDigitsAreDeclaredWhenNeeded(t *testing.T) {
	b := small(t, Source, 2)
	require.Empty(t, b.plan().Queues)
	require.Len(t, b.all().Queues, 6)
	steps := b.steps(link{1, hop{0, 3}}, 1)
	require.Equal(t, []topology.Queue{waiting("p.ladder.wait.00.03", 3000, "p.ladder.level.00")}, steps.Queues)
	require.Equal(t, []topology.Binding{{Source: "p.ladder.level.01", Key: "~d:1>0/3", Target: "p.ladder.wait.00.03"}}, steps.Bindings)
}

func TestClassicQueuesHaveTheExactTTL(t *testing.T) {
	b := small(t, Source, 1)
	b.kind = delayer.Classic
	require.Equal(t, amqp091.Table{
		"x-queue-type": "classic", "x-overflow": "reject-publish", "x-message-ttl": int64(2000), "x-dead-letter-exchange": "p.ladder.level.01",
	}, b.queue(hop{1, 1}).Args)
}
