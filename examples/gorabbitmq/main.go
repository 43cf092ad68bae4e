// Command gorabbitmq publishes a message with the options of wagslane/go-rabbitmq. It arrives after
// two seconds at go-rabbitmq's own consumer.
//
//	DELAYER_URL=amqp://guest:guest@localhost:5672/ go run ./examples/gorabbitmq
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/gorabbitmq"
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
	start := time.Now()
	err = gorabbitmq.NewPublisher(d).PublishDelayed(ctx, 2*time.Second, []byte("order 7 has not been paid"), []string{queue},
		rabbitmq.WithPublishOptionsContentType("text/plain"),
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"order": "7"}))
	if err != nil {
		return err
	}

	conn, err := rabbitmq.NewConn(cfg.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	consumer, err := rabbitmq.NewConsumer(conn, queue, rabbitmq.WithConsumerOptionsQueueNoDeclare)
	if err != nil {
		return err
	}
	handled := make(chan struct{})
	go func() { // a service closes the consumer when it is told to stop
		<-handled
		consumer.Close()
	}()
	return consumer.Run(func(m rabbitmq.Delivery) rabbitmq.Action {
		fmt.Printf("%s, after 2s: %t\n", m.Body, time.Since(start) >= 2*time.Second)
		close(handled)
		return rabbitmq.Ack
	})
}

// declare declares the queue first: a go-rabbitmq consumer declares its queue only when it runs.
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
