package broker_test

import (
	"context"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// TestConsume_EndsWithWhatIsAcknowledged: a channel of a quorum queue keeps acknowledgements back
// while 32 of them are not stored yet. It must not be closed before they are.
func TestConsume_EndsWithWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	publisher, control := open(t, b.URL(), func() {})
	queue := declare(t, control, amqp091.Table{"x-queue-type": "quorum"})
	conn, err := broker.Dial(within(t), options(t, b.URL()))
	require.NoError(t, err)
	defer conn.Close()
	const many, rounds = 1000, 5 // a fast broker stores them in time now and then
	for range rounds {
		require.NoError(t, publisher.Publish(within(t), to(queue))) // the first is alone on its channel
		var sent []*broker.Pending
		for range many - 1 {
			pending, err := publisher.Submit(within(t), to(queue))
			require.NoError(t, err)
			sent = append(sent, pending)
		}
		for _, pending := range sent {
			require.NoError(t, pending.Wait(within(t)))
		}
		acknowledge(t, conn, queue, many)
		require.Zero(t, left(t, control, queue), "they were acknowledged, and come again")
	}
}

// acknowledge consumes until so many messages are acknowledged, one by one.
func acknowledge(t *testing.T, conn *broker.Conn, queue string, many int) {
	t.Helper()
	ctx, stop := context.WithCancel(within(t))
	broker.Consume(ctx, conn, broker.Consuming{
		Queue: queue, Prefetch: many,
		Serve: func(_ context.Context, messages <-chan amqp091.Delivery) {
			var all []amqp091.Delivery
			for range many {
				all = append(all, <-messages)
			}
			for _, d := range all {
				require.NoError(t, d.Ack(false))
			}
			stop()
		},
	})
}

// left is how many messages a queue has once its consumer is gone.
func left(t *testing.T, control *broker.Control, queue string) int {
	t.Helper()
	var q amqp091.Queue
	require.Eventually(t, func() bool {
		var err error
		q, err = control.Queue(within(t), queue)
		require.NoError(t, err)
		return q.Consumers == 0
	}, time.Minute, 10*time.Millisecond)
	return q.Messages
}
