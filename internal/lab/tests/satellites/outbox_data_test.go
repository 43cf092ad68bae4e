package satellites_test

import (
	"context"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// counter is a Delayer that counts what it publishes, by id. A message of type "fails" fails.
type counter struct {
	fake
	mu   sync.Mutex
	came map[string]int
}

func newCounter() *counter {
	c := &counter{came: map[string]int{}}
	c.limits = delayer.Limits{Max: time.Hour}
	c.publish = func(_ context.Context, _ time.Duration, msg amqp091.Publishing) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.came[msg.MessageId]++
		if msg.Type == "fails" {
			return &delayer.Error{Op: "publish", Kind: delayer.ErrRefused}
		}
		return nil
	}
	return c
}

// await waits until each id was published, and returns how often each was.
func (c *counter) await(t *testing.T, ids ...string) map[string]int {
	t.Helper()
	all := map[string]int{}
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		clear(all)
		for id, n := range c.came {
			all[id] = n
		}
		for _, id := range ids {
			if all[id] == 0 {
				return false
			}
		}
		return true
	}, rabbittest.Patience, 5*time.Millisecond)
	return all
}

// TestRelay_PublishedStaysPublished: what fails after publishing does not bring back what was
// published.
func TestRelay_PublishedStaysPublished(t *testing.T) {
	pool, _ := database(t)
	// The database refuses to note a failure.
	_, err := pool.Exec(t.Context(), `ALTER TABLE delayer_outbox ADD CHECK (error IS NULL)`)
	require.NoError(t, err)
	require.NoError(t, outbox.Enqueue(t.Context(), pool, "", "q", 0, amqp091.Publishing{MessageId: "bad", Type: "fails"}))
	enqueue(t, pool, "q", 0, names(20)...)
	d := newCounter()
	stop := relay(t, pool, d, outbox.Config{})
	require.Eventually(t, func() bool { return d.await(t, "bad")["bad"] > 1 }, rabbittest.Patience, 5*time.Millisecond)
	stop()
	came := d.await(t, names(20)...)
	for _, id := range names(20) {
		assert.Equal(t, 1, came[id], id)
	}
	assert.Equal(t, 1, count(t, pool, "delayer_outbox"))
}
