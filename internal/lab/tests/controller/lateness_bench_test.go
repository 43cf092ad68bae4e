package controller_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkLateness publishes 500 messages a second, due after 0.1 to 10 s, and reports how late
// they come, from the time at which each was to be published. Give it a number: -benchtime 10000x.
func BenchmarkLateness(b *testing.B) {
	for _, kind := range []delayer.QueueType{delayer.Quorum, delayer.Classic} {
		b.Run("queues="+string(kind), func(b *testing.B) {
			opts := options(b, kind)
			d := rabbittest.Open(b, backend.Config{Options: opts, Backend: controller.Name, Controller: controller.Config{Wheel: controller.Rounds}})
			conn, err := amqp091.Dial(rabbittest.Broker(b).URL())
			require.NoError(b, err)
			ch, err := conn.Channel()
			require.NoError(b, err)
			queue := rabbittest.Prefix(b)
			_, err = ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": string(kind)})
			require.NoError(b, err)
			got, err := ch.Consume(queue, "", true, false, false, false, nil)
			require.NoError(b, err)
			report(b, punctuality(b, d, queue, got))
			_, _ = ch.QueueDelete(queue, false, false, false)
			require.NoError(b, conn.Close())
		})
	}
}

// punctuality returns by how much each message is late.
func punctuality(b *testing.B, d delayer.Delayer, queue string, got <-chan amqp091.Delivery) []time.Duration {
	const rate, workers = 500, 64
	delays := make([]time.Duration, b.N)
	random := rand.New(rand.NewPCG(2026, 11))
	for i := range delays {
		delays[i] = time.Duration(100+random.IntN(9901)) * time.Millisecond
	}
	b.ResetTimer()
	start := time.Now()
	due := func(i int) time.Time { return start.Add(time.Duration(i)*time.Second/rate + delays[i]) }
	var publishing sync.WaitGroup
	for w := range workers {
		publishing.Go(func() {
			for i := w; i < len(delays); i += workers {
				time.Sleep(time.Until(due(i).Add(-delays[i])))
				body := binary.BigEndian.AppendUint64(nil, uint64(i))
				if err := d.Publish(b.Context(), "", queue, delays[i], amqp091.Publishing{Body: body}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	late := make([]time.Duration, 0, b.N)
	for range delays {
		m := <-got
		late = append(late, time.Since(due(int(binary.BigEndian.Uint64(m.Body)))))
	}
	publishing.Wait()
	return late
}

func report(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	early, _ := slices.BinarySearch(late, 0)
	if early > 0 {
		b.Errorf("%d messages are early, one by %v", early, -late[0])
	}
	for name, part := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1} {
		at := late[int(part*float64(len(late)-1))]
		b.ReportMetric(float64(at.Microseconds())/1000, name+"-ms-late")
	}
	b.ReportMetric(0, "ns/op")
}
