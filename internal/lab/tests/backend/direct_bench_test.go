package backend_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// BenchmarkPublishDirect compares publishing without a delay, to one queue and to many in turn,
// with amqp091-go with deferred confirms.
func BenchmarkPublishDirect(b *testing.B) {
	for _, kind := range []delayer.QueueType{delayer.Classic, delayer.Quorum} {
		for _, destinations := range []int{1, 200} {
			b.Run(fmt.Sprintf("queues=%s/destinations=%d", kind, destinations), func(b *testing.B) {
				l, _, first := benchLadder(b, delayer.Classic, delayer.Observer{})
				ch := channel(b)
				queues := make([]string, destinations)
				for i := range queues {
					queues[i] = fmt.Sprintf("%s.%d", first, i)
					_, err := ch.QueueDeclare(queues[i], true, false, false, false, amqp091.Table{"x-queue-type": string(kind)})
					require.NoError(b, err)
				}
				b.Cleanup(func() {
					for _, queue := range queues {
						_, _ = ch.QueueDelete(queue, false, false, false)
					}
				})
				var turn atomic.Int64
				next := func() string { return queues[turn.Add(1)%int64(destinations)] }
				b.Run("by=delayer", func(b *testing.B) {
					ctx := context.Background()
					parallel(b, func() error { return l.Publish(ctx, "", next(), 0, amqp091.Publishing{Body: []byte("x")}) })
				})
				b.Run("by=batch", func(b *testing.B) {
					messages := make([]delayer.Message, b.N)
					for i := range messages {
						messages[i] = delayer.Message{Key: next(), Publishing: amqp091.Publishing{Body: []byte("x")}}
					}
					b.ReportAllocs()
					b.ResetTimer()
					for _, err := range l.PublishBatch(context.Background(), messages) {
						require.NoError(b, err)
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
				})
				b.Run("by=amqp091", func(b *testing.B) {
					require.NoError(b, ch.Confirm(false))
					parallel(b, func() error {
						confirm, err := ch.PublishWithDeferredConfirm("", next(), true, false, amqp091.Publishing{
							DeliveryMode: amqp091.Persistent, Headers: amqp091.Table{delayer.Header: "0123456789abcdef 1795234405786 "}, Body: []byte("x"),
						})
						if err == nil && !confirm.Wait() {
							err = delayer.ErrRefused
						}
						return err
					})
				})
			})
		}
	}
}
