package backend_test

import (
	"context"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkPublishBatch compares one goroutine that publishes one by one with one that publishes a
// slice. turns/msg is how often a client waited for the broker: a conversation changes its
// direction twice a turn.
func BenchmarkPublishBatch(b *testing.B) {
	direct := rabbittest.Broker(b).URL()
	for _, by := range []string{"one", "batch"} {
		b.Run("by="+by, func(b *testing.B) {
			count := &counter{}
			through := rabbittest.Between(b, direct, count.seen)
			d, queue := batchLadder(b, through)
			messages := make([]delayer.Message, b.N)
			for i := range messages {
				messages[i] = delayer.Message{Key: queue, Delay: 1000 * time.Hour, Publishing: amqp091.Publishing{Body: []byte("x")}}
			}
			require.NoError(b, d.Publish(b.Context(), "", queue, messages[0].Delay, messages[0].Publishing))
			publish := d.PublishBatch
			if by == "one" {
				publish = func(ctx context.Context, messages []delayer.Message) []error {
					return delayer.PublishEach(ctx, d.Publish, messages)
				}
			}
			count.reset()
			b.ReportAllocs()
			b.ResetTimer()
			for _, err := range publish(b.Context(), messages) {
				require.NoError(b, err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			b.ReportMetric(count.turns()/float64(b.N), "turns/msg")
		})
	}
}

func batchLadder(b *testing.B, url string) (d delayer.Delayer, queue string) {
	b.Helper()
	d = rabbittest.Open(b, backend.Config{Options: delayer.Options{URL: url, Prefix: rabbittest.Prefix(b)}})
	queue = rabbittest.Prefix(b)
	ch := channel(b)
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(b, err)
	b.Cleanup(func() {
		_, _ = ch.QueueDelete(queue, false, false, false)
	})
	return d, queue
}

// A counter counts how often the direction changes in which bytes go.
type counter struct {
	mu      sync.Mutex
	last    direction
	changes int
}

type direction struct {
	connection int
	toBroker   bool
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = 0
}

func (c *counter) turns() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.changes) / 2
}

func (c *counter) seen(connection int, toBroker bool, _ []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if goes := (direction{connection, toBroker}); c.last != goes {
		c.last = goes
		c.changes++
	}
}
