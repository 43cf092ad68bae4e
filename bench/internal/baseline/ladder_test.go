package baseline

import (
	"strconv"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func zeros(n int) string { return strings.Repeat("0.", n) }

func TestLadderKeySpellsTheDelay(t *testing.T) {
	assert.Equal(t, zeros(24)+"1.0.1.0.q", ladderKey(10, "q"))
	assert.Equal(t, zeros(28)+"q", ladderKey(0, "q"))
	assert.Equal(t, strings.Repeat("1.", 28)+"q", ladderKey(1<<levels-1, "q"))
}

func TestLadderPatternLooksAtOneWord(t *testing.T) {
	assert.Equal(t, "1.#", ladderPattern(27, "1"))
	assert.Equal(t, "*.*.0.#", ladderPattern(25, "0"))
}

func TestEntries(t *testing.T) {
	for _, c := range []struct {
		name  string
		ticks int64
		want  string
	}{
		{TopEntry, 10, "p.level-27"},
		{TopEntry, 0, "p.level-27"},
		{BitEntry, 10, "p.level-3"},
		{BitEntry, 1, "p.level-0"},
		{BitEntry, 0, "p.deliver"},
		{BitEntry, 1<<levels - 1, "p.level-27"},
	} {
		plan, err := designOf(Config{Name: c.name, Prefix: "p", QueueType: "classic", Destination: "q"})
		require.NoError(t, err)
		entry, key := plan.route(c.ticks, &amqp091.Publishing{})
		assert.Equal(t, c.want, entry, "%s of %d", c.name, c.ticks)
		assert.Equal(t, ladderKey(c.ticks, "q"), key)
	}
}

func TestLadderTopologyIsTheSeeds(t *testing.T) {
	plan, err := designOf(Config{Name: TopEntry, Prefix: "p", QueueType: "quorum", Destination: "q"})
	require.NoError(t, err)
	top := plan.topology
	assert.Len(t, top.exchanges, levels+1)
	assert.Len(t, top.queues, levels)
	assert.Len(t, top.bindings, 2*levels+1)
	assert.Equal(t, binding{from: "p.deliver", key: "#.q", to: "q", toQueue: true}, top.bindings[0])
	third := top.queues[3]
	assert.Equal(t, "p.wait-3", third.name)
	assert.Equal(t, amqp091.Table{
		"x-queue-type": "quorum", "x-dead-letter-exchange": "p.level-2", "x-message-ttl": int64(8000),
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}, third.args)
}

// TestMixedTiers: a delay waits in the first queue that is for delays so long, with its own
// expiration.
func TestMixedTiers(t *testing.T) {
	plan, err := designOf(Config{Name: MixedTiers, Prefix: "p", QueueType: "classic", Destination: "q"})
	require.NoError(t, err)
	require.Len(t, plan.topology.queues, 4)
	assert.NotContains(t, plan.topology.queues[3].args, "x-message-ttl", "the message's own ends its delay")
	for ms, want := range map[int64]string{
		0: "p.in-1000", 1000: "p.in-1000", 1001: "p.in-5000", 5000: "p.in-5000", 7000: "p.in-10000", 20_000: "p.in-20000", 30_000: "p.in-20000",
	} {
		var msg amqp091.Publishing
		entry, key := plan.route(ms, &msg)
		assert.Equal(t, want, entry, "%d ms", ms)
		assert.Equal(t, "q", key)
		assert.Equal(t, strconv.FormatInt(ms, 10), msg.Expiration)
	}
}
