package satellites_test

import (
	"context"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/retry"
)

const benchPrefetch = 100

// fill puts messages into the queue, confirmed.
func (s *service) fill(n int) {
	s.Helper()
	messages := make([]amqp091.Publishing, n)
	for i := range messages {
		messages[i] = amqp091.Publishing{Body: make([]byte, 100), DeliveryMode: 2, MessageId: "m", Headers: amqp091.Table{"kind": "order"}}
	}
	s.Publish("", s.cfg.Queue, messages...)
}

// BenchmarkConsume compares a handler that never fails with a bare consumer of the same prefetch:
// at least 0.95 of its throughput is wanted. Both acknowledge each message. They take turns,
// because a machine is not as busy at one moment as at another: try -benchtime 100000x.
func BenchmarkConsume(b *testing.B) {
	const rounds = 10
	n := max(b.N/rounds, 2)
	var bare, ours time.Duration
	for range rounds {
		bare += consumeBare(b, n)
		ours += consumeRetry(b, n)
	}
	b.ReportMetric(bare.Seconds()/ours.Seconds(), "of-bare")
	b.ReportMetric(float64(n*rounds)/ours.Seconds(), "msg/s")
}

// consumeBare returns the time from the first message to the last.
func consumeBare(b *testing.B, n int) time.Duration {
	s := newService(b, ladder())
	ch := s.Channel()
	require.NoError(b, ch.Qos(benchPrefetch, 0, false))
	s.fill(n)
	in, err := ch.Consume(s.cfg.Queue, "", false, false, false, false, nil)
	require.NoError(b, err)
	var began time.Time
	for i := range n {
		d := <-in
		if i == 0 {
			began = time.Now()
		}
		require.NoError(b, d.Ack(false))
	}
	return time.Since(began)
}

// consumeRetry is consumeBare through package retry.
func consumeRetry(b *testing.B, n int) (took time.Duration) {
	s := newService(b, ladder())
	s.cfg.Prefetch, s.cfg.HandlerTimeout = benchPrefetch, time.Second
	s.fill(n)
	ctx, cancel := context.WithCancel(b.Context())
	handled := 0
	var began time.Time
	require.NoError(b, retry.Consume(ctx, s.d, s.cfg, func(context.Context, amqp091.Delivery) error {
		switch handled++; handled {
		case 1:
			began = time.Now()
		case n:
			took = time.Since(began)
			cancel()
		}
		return nil
	}))
	return took
}
