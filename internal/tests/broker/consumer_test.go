package broker_test

import (
	"context"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

func TestConsume_LostConnection(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	publisher, control := open(t, b.URL(), func() {})
	queue := declare(t, control, nil)
	proxy, cut := forward(t)
	conn, err := broker.Dial(within(t), options(t, at(t, proxy)))
	require.NoError(t, err)
	defer conn.Close()

	ctx, stop := context.WithCancel(within(t))
	got, failed, done := make(chan amqp091.Delivery, 10), make(chan error, 10), make(chan struct{})
	go func() {
		defer close(done)
		broker.Consume(ctx, conn, broker.Consuming{
			Queue: queue, Prefetch: 10,
			Serve: func(alive context.Context, messages <-chan amqp091.Delivery) {
				for {
					select {
					case d, ok := <-messages:
						if !ok {
							<-alive.Done()
							return
						}
						got <- d
					case <-ctx.Done():
						return
					}
				}
			},
			Failed: func(_ context.Context, err error) { failed <- err },
		})
	}()
	require.NoError(t, publisher.Publish(within(t), to(queue)))
	first := <-got
	require.False(t, first.Redelivered)
	cut()
	require.Error(t, <-failed)
	again := <-got
	require.True(t, again.Redelivered, "what was not acknowledged comes again")
	require.NoError(t, again.Ack(false))
	require.NoError(t, publisher.Publish(within(t), to(queue)))
	<-got
	stop()
	<-done
	require.Eventually(t, func() bool { return count(t, control, queue) == 1 }, time.Minute, 10*time.Millisecond,
		"what was not acknowledged is in the queue again")
}
