package migrate_test

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkServe measures how fast delayer serve passes on what waits in its queue (msg/s), and
// with one message at a time how much later it arrives than its delay says (ms).
func BenchmarkServe(b *testing.B) {
	for name, delay := range map[string]int32{"at once": 0, "delayed": 1000} {
		b.Run(name, func(b *testing.B) {
			c := newCrossing(b, "topic")
			c.swap()
			require.NoError(b, c.Ch.Confirm(false))
			for i := range b.N {
				confirm, err := c.Ch.PublishWithDeferredConfirm(c.exchange, "order.new", false, false, amqp091.Publishing{
					Headers: amqp091.Table{"x-delay": delay}, DeliveryMode: 2, Body: make([]byte, 1000),
				})
				require.NoError(b, err)
				if i == b.N-1 {
					require.True(b, confirm.Wait())
				}
			}
			b.ResetTimer()
			c.prefetch = 500
			stop := c.cross(nil)
			began := time.Now()
			deliveries := c.Consume(c.queue)
			for range b.N {
				rabbittest.Next(c, deliveries)
			}
			took := time.Since(began) - time.Duration(delay)*time.Millisecond
			b.ReportMetric(float64(b.N)/took.Seconds(), "msg/s")
			require.Zero(b, c.count(c.names.Queue))
			lateness(b, c, deliveries)
			stop()
		})
	}
}

// lateness publishes messages one after the other.
func lateness(b *testing.B, c *crossing, deliveries <-chan amqp091.Delivery) {
	b.Helper()
	const delay, some = 300 * time.Millisecond, 20
	var late time.Duration
	for range some {
		began := time.Now()
		c.PublishDelayed(c.exchange, "order.new", amqp091.Publishing{Headers: amqp091.Table{"x-delay": int32(delay.Milliseconds())}})
		rabbittest.Next(c, deliveries)
		late += time.Since(began) - delay
	}
	b.ReportMetric(float64(late.Microseconds())/1000/some, "ms-late")
}
