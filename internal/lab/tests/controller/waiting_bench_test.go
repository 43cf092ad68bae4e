package controller_test

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkWaiting has messages of 100 bytes wait for a day to three. It reports how fast they are
// published, the memory of the controller that leads, and how long after the start of another one a
// message that came due meanwhile is delivered, one with a ticket and one without. For ten million:
//
//	go test ./internal/lab/tests/controller -run '^$' -bench Waiting -benchtime 10000000x -timeout 1h
func BenchmarkWaiting(b *testing.B) {
	opts := options(b, delayer.Quorum)
	d := rabbittest.Open(b, backend.Config{Options: opts, Backend: controller.Name, Controller: controller.Config{PublishOnly: true}})
	conn, err := amqp091.Dial(opts.URL)
	require.NoError(b, err)
	ch, err := conn.Channel()
	require.NoError(b, err)
	queue := rabbittest.Prefix(b)
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(b, err)
	got, err := ch.Consume(queue, "", true, false, false, false, nil)
	require.NoError(b, err)
	first := startPair(b, ch, opts)

	b.ResetTimer()
	const most = 10_000
	body := make([]byte, 100)
	for done := 0; done < b.N; {
		batch := make([]delayer.Message, min(most, b.N-done))
		for i := range batch {
			wait := 24*time.Hour + time.Duration(done+i)%(48*time.Hour/time.Millisecond)*time.Millisecond
			batch[i] = delayer.Message{Key: queue, Delay: wait, Publishing: amqp091.Publishing{Body: body}}
		}
		for _, err := range d.PublishBatch(b.Context(), batch) {
			require.NoError(b, err)
		}
		done += len(batch)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "published/s")
	require.Eventually(b, func() bool {
		q, err := ch.QueueDeclarePassive(opts.Prefix+".controller.log", true, false, false, false, nil)
		return err == nil && q.Messages == 0 // what is in hand is not counted
	}, patience, 100*time.Millisecond)
	b.ReportMetric(first.leads.heap(), "heap-MB")
	b.ReportMetric(first.leads.rss(), "rss-MB")
	b.ReportMetric(highWater(first.leads.Process.Pid), "most-MB")

	first.leads.kill()
	first.other.kill()
	soon := func(id string) delayer.Message {
		msg := amqp091.Publishing{MessageId: id}
		return delayer.Message{Key: queue, Delay: time.Millisecond, Publishing: msg}
	}
	plain := soon("plain")
	require.NoError(b, d.Publish(b.Context(), "", plain.Key, plain.Delay, plain.Publishing))
	_, err = d.Schedule(b.Context(), soon("ticket"))
	require.NoError(b, err)
	began := time.Now()
	second := startProcess(b, opts)
	for range 2 {
		m := rabbittest.Next(b, got)
		b.ReportMetric(time.Since(began).Seconds(), "s-to-"+m.MessageId)
	}
	b.ReportMetric(highWater(second.Process.Pid), "started-MB")
	b.ReportMetric(0, "ns/op")
	second.kill()
	_, _ = ch.QueueDelete(queue, false, false, false)
	require.NoError(b, conn.Close())
}
