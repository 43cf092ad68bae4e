// Command gorabbitmq publishes a message with the options of wagslane/go-rabbitmq. After two seconds
// it arrives at go-rabbitmq's own consumer. If the handler fails, it comes again after one second,
// then after two. After that it is parked.
//
//	DELAYER_URL=amqp://guest:guest@localhost:5672/ go run ./examples/gorabbitmq
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/gorabbitmq"
	"github.com/delayer-go/delayer/retry"
)

const queue = "example-gorabbitmq"

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg, err := backend.FromEnv(backend.Config{}, os.Environ())
	if err != nil {
		return err
	}
	if err := declare(cfg.URL); err != nil {
		return err
	}
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	r, err := retry.Open(ctx, d, retry.Config{
		URL: cfg.URL, Queue: queue,
		Policy: retry.Policy{Intervals: []time.Duration{time.Second, 2 * time.Second}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	conn, err := rabbitmq.NewConn(cfg.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	consumer, err := rabbitmq.NewConsumer(conn, queue, rabbitmq.WithConsumerOptionsQueueNoDeclare)
	if err != nil {
		return err
	}

	err = gorabbitmq.NewPublisher(d).PublishDelayed(ctx, 2*time.Second, []byte("order 7 has not been paid"), []string{queue},
		rabbitmq.WithPublishOptionsContentType("text/plain"),
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"order": "7"}))
	if err != nil {
		return err
	}
	go func() { // a service closes the consumer when it is told to stop
		<-handled
		consumer.Close()
	}()
	return consumer.Run(gorabbitmq.RetryFunc(ctx, r, handle))
}

// handled is closed once the message was handled.
var handled = make(chan struct{})

// handle fails twice. For a rabbitmq.Handler, which answers Ack or NackRequeue, use
// gorabbitmq.RetryHandler.
func handle(ctx context.Context, d rabbitmq.Delivery) error {
	attempt := retry.Info(ctx)
	if attempt.Number < 3 {
		fmt.Printf("attempt %d of %d fails\n", attempt.Number, attempt.Max)
		return errors.New("503 Service Unavailable")
	}
	fmt.Printf("attempt %d of %d: %s\n", attempt.Number, attempt.Max, d.Body)
	close(handled)
	return nil
}

// declare declares the queue: retry.Open needs it, and a go-rabbitmq consumer declares it only when
// it runs.
func declare(url string) error {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	_, err = ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, amqp091.Table{"x-queue-type": "quorum"})
	return err
}
