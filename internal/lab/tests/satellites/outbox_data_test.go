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
	last map[string]time.Duration // the delay
}

func newCounter() *counter {
	c := &counter{came: map[string]int{}, last: map[string]time.Duration{}}
	c.limits = delayer.Limits{Max: time.Hour}
	c.publish = func(_ context.Context, delay time.Duration, msg amqp091.Publishing) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.came[msg.MessageId]++
		c.last[msg.MessageId] = delay
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

// TestRelay_ImpossibleValues: what is in one row neither stops the others nor publishes them twice.
func TestRelay_ImpossibleValues(t *testing.T) {
	pool, _ := database(t)
	rows := []struct {
		id, kind, due, next string
		attempts            int
		published           int
		err                 string
	}{
		{id: "held", due: "now", next: "infinity"},
		{id: "always ready", due: "now", next: "-infinity", published: 1},
		{id: "never due", due: "infinity", next: "now", err: "due"},
		{id: "always due", due: "-infinity", next: "now", err: "due"},
		{id: "last year of timestamptz", due: "294276-12-31", next: "now"},
		{id: "first year of timestamptz", due: "4713-01-01 BC", next: "4713-01-01 BC", published: 1},
		{id: "beyond a Duration", due: "1500-01-01", next: "1500-01-01", published: 1},
		{id: "most attempts", kind: "fails", due: "now", next: "now", attempts: 1<<31 - 1, published: 1, err: "refused"},
		{id: "least attempts", kind: "fails", due: "now", next: "now", attempts: -1 << 31, published: 1, err: "refused"},
	}
	for _, r := range rows {
		_, err := pool.Exec(t.Context(), `INSERT INTO delayer_outbox (message, body, due, next_try, attempts) VALUES
			(json_build_object('properties', json_build_object('message_id', $1::text, 'type', $2::text)), '', $3, $4, $5)`,
			r.id, r.kind, r.due, r.next, r.attempts)
		require.NoError(t, err)
	}
	d := newCounter()
	stop := relay(t, pool, d, outbox.Config{MaxPause: time.Hour})
	enqueue(t, pool, "q", 0, names(5)...)
	require.Eventually(t, func() bool {
		lag, err := outbox.ReadLag(t.Context(), pool)
		return assert.NoError(t, err) && lag.Ready == 0
	}, rabbittest.Patience, 5*time.Millisecond)
	stop()
	came := d.await(t)
	for _, id := range names(5) {
		assert.Equal(t, 1, came[id], id)
	}
	failures, err := outbox.Failures(t.Context(), pool, len(rows))
	require.NoError(t, err)
	failed := map[string]string{}
	for _, f := range failures {
		failed[f.Message.MessageId] = f.Err
	}
	for _, r := range rows {
		assert.Equal(t, r.published, came[r.id], r.id)
		assert.Zero(t, d.last[r.id], r.id)
		assert.Contains(t, failed[r.id], r.err, r.id)
		assert.Equal(t, r.err == "", failed[r.id] == "", r.id)
	}
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
