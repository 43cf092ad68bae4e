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
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	queue := r.Queue("q", amqp091.Table{"x-queue-type": "quorum"})
	conn, err := broker.Dial(within(t), options(t, r.Broker.URL()))
	require.NoError(t, err)
	defer conn.Close()
	const many, rounds = 1000, 5 // a fast broker stores them in time now and then
	for range rounds {
		r.Publish("", queue, make([]amqp091.Publishing, many)...)
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
		require.Eventually(t, func() bool {
			q, err := r.Ch.QueueDeclarePassive(queue, true, false, false, waitForAnswer, nil)
			require.NoError(t, err)
			require.Zero(t, q.Messages, "they were acknowledged, and come again")
			return q.Consumers == 0
		}, time.Minute, 10*time.Millisecond)
	}
}

// TestEndActive_SilentQueue: whoever waits for a consumer's end hears of it, however long the queue
// takes to answer.
func TestEndActive_SilentQueue(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	queue := r.Queue("q", amqp091.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	conn, err := broker.Dial(within(t), options(t, r.Broker.URL()))
	require.NoError(t, err)
	defer conn.Close()
	ch, err := conn.Channel(within(t))
	require.NoError(t, err)
	_, err = broker.Begin(ch, queue, "first", 1, nil)
	require.NoError(t, err)
	resume := rabbittest.Suspend(t, r.Broker, queue)
	const long = 6 * time.Second
	time.AfterFunc(long, resume)
	require.True(t, broker.EndActive(ch, queue))
}
