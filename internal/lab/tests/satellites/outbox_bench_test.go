package satellites_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// BenchmarkRelay publishes a backlog of b.N messages of 200 bytes: try -benchtime 50000x.
func BenchmarkRelay(b *testing.B) {
	broker := func(b *testing.B, backend string) (delayer.Delayer, string) {
		r := rabbittest.Broker(b)
		ch, queue := rabbittest.NewRig(b, r).Ch, rabbittest.Prefix(b)
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		_, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait,
			amqp091.Table{"x-max-length": 1, "x-expires": time.Minute.Milliseconds()})
		require.NoError(b, err)
		cfg := config(b, r)
		cfg.Backend = backend
		return rabbittest.Open(b, cfg), queue
	}
	for _, backend := range []string{"binaryladder", "controller"} {
		b.Run(backend, func(b *testing.B) {
			d, queue := broker(b, backend)
			drain(b, d, queue)
		})
	}
	b.Run("broker alone", func(b *testing.B) { // as many under way as a relay has: what there is to reach
		d, queue := broker(b, "binaryladder")
		var next atomic.Int64
		var all sync.WaitGroup
		b.ResetTimer()
		for range 1000 {
			all.Go(func() {
				for next.Add(1) <= int64(b.N) {
					assert.NoError(b, d.Publish(b.Context(), "", queue, 10*time.Second, aMessage()))
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
	nothing := &fake{
		limits:  delayer.Limits{Max: time.Hour},
		publish: func(context.Context, time.Duration, amqp091.Publishing) error { return nil },
	}
	b.Run("database alone", func(b *testing.B) { drain(b, nothing, "queue") })
}

func drain(b *testing.B, d delayer.Delayer, queue string) {
	pool, _ := database(b)
	fill(b, pool, queue, b.N)
	b.ResetTimer()
	relay(b, pool, d, outbox.Config{})
	for left := 1; left > 0; time.Sleep(5 * time.Millisecond) { // a count each time would be work of its own
		require.NoError(b, pool.QueryRow(b.Context(), "SELECT count(*) FROM (SELECT FROM delayer_outbox LIMIT 1) AS any_row").Scan(&left))
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// fill enqueues one message and copies its row.
func fill(b *testing.B, pool *pgxpool.Pool, queue string, n int) {
	require.NoError(b, outbox.Enqueue(b.Context(), pool, "", queue, 10*time.Second, aMessage()))
	_, err := pool.Exec(b.Context(), `INSERT INTO delayer_outbox (message, body, due)
		SELECT message, body, due FROM delayer_outbox, generate_series(2, $1)`, n)
	require.NoError(b, err)
}

func aMessage() amqp091.Publishing {
	return amqp091.Publishing{Headers: amqp091.Table{"tenant": "acme"}, ContentType: "application/json", Body: make([]byte, 200)}
}
