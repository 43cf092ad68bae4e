package backend_test

import (
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkQuorumHop shows what one quorum queue costs the broker by itself: a message is published
// into it, confirmed, received, and acknowledged together with those of its 10 ms. Nothing that
// keeps messages in a quorum queue on their way can cost less. The rate decides most of it: what
// comes at one time is written to the log together. Read broker-µs/msg: go test -bench
// QuorumHop -benchtime 12000x.
func BenchmarkQuorumHop(b *testing.B) {
	for _, rate := range []int{2000, 4000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) { hop(b, rate) })
	}
	b.Run("rate=unlimited", func(b *testing.B) { hop(b, 0) })
}

// hop sends b.N messages through a quorum queue, rate a second, or as fast as confirmed if it is 0.
func hop(b *testing.B, rate int) {
	node := rabbittest.Broker(b)
	if !node.Owned() {
		rabbittest.Skipf(b, "the broker is not ours to measure")
	}
	out, in, queue := channel(b), channel(b), rabbittest.Prefix(b)
	_, err := out.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(b, err)
	b.Cleanup(func() { _, _ = out.QueueDelete(queue, false, false, false) })
	require.NoError(b, out.Confirm(false))
	require.NoError(b, in.Qos(1000, 0, false))
	deliveries, err := in.Consume(queue, "", false, false, false, false, nil)
	require.NoError(b, err)

	before, err := node.CPU()
	require.NoError(b, err)
	b.ResetTimer()
	var all errgroup.Group
	all.Go(func() error { return publishAt(out, queue, rate, b.N) })
	acknowledge := time.NewTicker(10 * time.Millisecond)
	defer acknowledge.Stop()
	for received, tag := 0, uint64(0); received < b.N || tag != 0; {
		select {
		case d := <-deliveries:
			received, tag = received+1, d.DeliveryTag
		case <-acknowledge.C:
			if tag != 0 {
				require.NoError(b, in.Ack(tag, true))
				tag = 0
			}
		}
	}
	b.StopTimer()
	require.NoError(b, all.Wait())
	after, err := node.CPU()
	require.NoError(b, err)
	b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "broker-µs/msg")
}

// publishAt leaves as many messages unconfirmed at a time as delayer-bench has publishers.
func publishAt(ch *amqp091.Channel, queue string, rate, n int) error {
	const unconfirmed = 256
	var confirms errgroup.Group
	confirms.SetLimit(unconfirmed)
	start := time.Now()
	for i := range n {
		if rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		}
		msg := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: make([]byte, 64)}
		confirm, err := ch.PublishWithDeferredConfirm("", queue, false, false, msg)
		if err != nil {
			return err
		}
		confirms.Go(func() error { confirm.Wait(); return nil })
	}
	return confirms.Wait()
}
