package gorabbitmq_test

import (
	"context"
	"log"
	"time"

	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/gorabbitmq"
	"github.com/delayer-go/delayer/retry"
)

// handle is a handler as go-rabbitmq has them.
func handle(rabbitmq.Delivery) rabbitmq.Action { return rabbitmq.NackRequeue }

// A message that the handler would requeue comes again after a second, then after a minute, and is
// then parked.
func ExampleRetryHandler() {
	ctx, url := context.Background(), "amqp://guest:guest@localhost:5672/"
	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: url}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	r, err := retry.Open(ctx, d, retry.Config{
		URL: url, Queue: "orders",
		Policy: retry.Policy{Intervals: []time.Duration{time.Second, time.Minute}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	conn, err := rabbitmq.NewConn(url)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	consumer, err := rabbitmq.NewConsumer(conn, "orders", rabbitmq.WithConsumerOptionsQueueNoDeclare)
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	if err := consumer.Run(gorabbitmq.RetryHandler(ctx, r, handle)); err != nil {
		log.Fatal(err)
	}
}
