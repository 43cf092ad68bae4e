package bench

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkPublish is the path of a message from Publish to its confirm, through every backend as
// it is by default. Read it with benchstat: go test ./bench -run xxx -bench
// Publish -benchmem -count 10.
func BenchmarkPublish(b *testing.B) {
	for _, name := range []string{"binaryladder", "fixedtiers", "controller"} {
		b.Run("backend="+name, func(b *testing.B) { benchPublish(b, name) })
	}
}

func benchPublish(b *testing.B, name string) {
	url := rabbittest.Broker(b).URL()
	d := rabbittest.Open(b, backend.Config{
		Options: delayer.Options{URL: url, Prefix: rabbittest.Prefix(b), Logger: slog.New(slog.DiscardHandler)},
		Backend: name,
	})
	conn, err := amqp091.Dial(url)
	require.NoError(b, err)
	ch, err := conn.Channel()
	require.NoError(b, err)
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	queue, err := ch.QueueDeclare(rabbittest.Prefix(b), durable, autoDelete, exclusive, noWait, nil)
	require.NoError(b, err)
	b.Cleanup(func() {
		_, _ = ch.QueueDelete(queue.Name, false, false, false)
		_ = conn.Close()
	})
	const delay = 15 * time.Minute // a tier of the default; nothing comes due while measuring
	publish := func() error {
		return d.Publish(context.Background(), "", queue.Name, delay, amqp091.Publishing{Body: []byte("x")})
	}
	require.NoError(b, publish()) // what is declared at first use, is
	b.ReportAllocs()
	b.ResetTimer()
	manyAtATime(b, publish)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// manyAtATime calls publish from some goroutines until b has enough.
func manyAtATime(b *testing.B, publish func() error) {
	const publishers = 64
	var next atomic.Int64
	var workers sync.WaitGroup
	for range publishers {
		workers.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := publish(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}
