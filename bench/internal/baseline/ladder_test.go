package baseline

import (
	"strconv"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/topology"
)

// TestLadder: what the seed publishes, and where.
func TestLadder(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("0.", n) }
	for _, c := range []struct {
		name          string
		ticks         int64
		exchange, key string
	}{
		{TopEntry, 10, "p.level-27", zeros(24) + "1.0.1.0.q"},
		{TopEntry, 0, "p.level-27", zeros(28) + "q"},
		{BitEntry, 10, "p.level-3", zeros(24) + "1.0.1.0.q"},
		{BitEntry, 1, "p.level-0", zeros(27) + "1.q"},
		{BitEntry, 0, "p.deliver", zeros(28) + "q"},
		{BitEntry, 1<<levels - 1, "p.level-27", strings.Repeat("1.", 28) + "q"},
	} {
		plan, err := designOf(Config{Name: c.name, Prefix: "p", QueueType: "classic", Destination: "q"})
		require.NoError(t, err)
		exchange, key := plan.route(c.ticks, &amqp091.Publishing{})
		assert.Equal(t, c.exchange, exchange, "%s of %d", c.name, c.ticks)
		assert.Equal(t, c.key, key)
	}
}

func TestLadder_Topology(t *testing.T) {
	plan, err := designOf(Config{Name: TopEntry, Prefix: "p", QueueType: "quorum", Destination: "q"})
	require.NoError(t, err)
	top := plan.topology
	assert.Len(t, top.Exchanges, levels+1)
	assert.Len(t, top.Queues, levels)
	assert.Len(t, top.Bindings, 2*levels+1)
	assert.Equal(t, topology.Binding{Source: "p.deliver", Key: "#.q", Target: "q"}, top.Bindings[0])
	third := top.Queues[3]
	assert.Equal(t, "p.wait-3", third.Name)
	assert.Equal(t, amqp091.Table{
		"x-queue-type": "quorum", "x-dead-letter-exchange": "p.level-2", "x-message-ttl": int64(8000),
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}, third.Args)
}

// TestMixedTiers: a delay waits in the first queue that is for delays so long, with its own
// expiration.
func TestMixedTiers(t *testing.T) {
	plan, err := designOf(Config{Name: MixedTiers, Prefix: "p", QueueType: "classic", Destination: "q"})
	require.NoError(t, err)
	require.Len(t, plan.topology.Queues, 4)
	assert.NotContains(t, plan.topology.Queues[3].Args, "x-message-ttl", "the message's own ends its delay")
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
