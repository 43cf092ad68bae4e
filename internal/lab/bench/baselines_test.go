package bench

import (
	"strconv"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var tested = Env{Prefix: "p", Destination: "q", Tick: time.Second}

// TestLadder: what the seed publishes, and where.
func TestLadder(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("0.", n) }
	for _, c := range []struct {
		atTop         bool
		ticks         int64
		exchange, key string
	}{
		{true, 10, "p.level-27", zeros(24) + "1.0.1.0.q"},
		{true, 0, "p.level-27", zeros(28) + "q"},
		{false, 10, "p.level-3", zeros(24) + "1.0.1.0.q"},
		{false, 1, "p.level-0", zeros(27) + "1.q"},
		{false, 0, "p.deliver", zeros(28) + "q"},
		{false, 1<<levels - 1, "p.level-27", strings.Repeat("1.", 28) + "q"},
	} {
		exchange, key := ladderDesign(tested, "classic", c.atTop).route(c.ticks, &amqp091.Publishing{})
		assert.Equal(t, c.exchange, exchange, "%v", c)
		assert.Equal(t, c.key, key)
	}
}

// TestMixedTiers: a delay waits in the first queue that is for delays so long, with its own
// expiration.
func TestMixedTiers(t *testing.T) {
	plan := ttlDesign(tested, "classic", 1000, 5000, 10_000, 20_000)
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
