package retry_test

import (
	"context"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/retry"
)

const benchPrefetch = 100

// fill puts messages into the queue, confirmed.
func (s *scene) fill(n int) {
	s.t.Helper()
	var last *amqp091.DeferredConfirmation
	for range n {
		var err error
		last, err = s.ch.PublishWithDeferredConfirm("", s.cfg.Queue, true, false, amqp091.Publishing{
			Body: make([]byte, 100), DeliveryMode: 2, MessageId: "m", Headers: amqp091.Table{"kind": "order"},
		})
		require.NoError(s.t, err)
	}
	require.True(s.t, last.Wait())
}

// BenchmarkConsume compares a handler that never fails with a bare consumer of the same prefetch: at
// least 0.95 of its throughput is wanted. Both acknowledge each message. The time runs from the first
// message to the last, without what is opened before.
func BenchmarkConsume(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		s := newScene(b, ladder())
		ch := rabbittest.Channel(b, rabbittest.Broker(b))
		require.NoError(b, ch.Qos(benchPrefetch, 0, false))
		s.fill(b.N + 1)
		in, err := ch.Consume(s.cfg.Queue, "", false, false, false, false, nil)
		require.NoError(b, err)
		require.NoError(b, (<-in).Ack(false))
		b.ResetTimer()
		for range b.N {
			d := <-in
			require.NoError(b, d.Ack(false))
		}
		b.StopTimer()
	})
	b.Run("retry", func(b *testing.B) {
		s := newScene(b, ladder())
		s.cfg.Prefetch = benchPrefetch
		s.fill(b.N + 1)
		ctx, cancel := context.WithCancel(b.Context())
		handled := 0
		require.NoError(b, retry.Consume(ctx, s.cfg, func(context.Context, amqp091.Delivery) error {
			switch handled++; handled {
			case 1:
				b.ResetTimer()
			case b.N + 1:
				b.StopTimer()
				cancel()
			}
			return nil
		}))
	})
}

// BenchmarkHandle is what a message costs beside the broker.
func BenchmarkHandle(b *testing.B) {
	s := newScene(b, ladder())
	r, err := retry.Open(b.Context(), s.cfg)
	require.NoError(b, err)
	defer r.Close()
	d := amqp091.Delivery{Headers: amqp091.Table{"kind": "order"}, MessageId: "m", Body: make([]byte, 100)}
	b.ReportAllocs()
	for b.Loop() {
		r.Do(b.Context(), d, func(context.Context, amqp091.Delivery) error { return nil })
	}
}
