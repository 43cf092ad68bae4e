package gorabbitmq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/gorabbitmq"
)

const url = "amqp://guest:guest@localhost:5672/"

// A reminder that is consumed a minute after it was published. The consumer is go-rabbitmq's own.
func Example() {
	conn, err := rabbitmq.NewConn(url)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	consumer, err := rabbitmq.NewConsumer(conn, "reminders",
		rabbitmq.WithConsumerOptionsQueueDurable,
		rabbitmq.WithConsumerOptionsExchangeName("orders"),
		rabbitmq.WithConsumerOptionsExchangeDeclare,
		rabbitmq.WithConsumerOptionsRoutingKey("order.reminder"))
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()

	d, err := backend.Open(context.Background(), backend.Config{Options: delayer.Options{URL: url}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	publisher := gorabbitmq.NewPublisher(d)
	err = publisher.PublishDelayed(context.Background(), time.Minute, []byte("order 7"), []string{"order.reminder"},
		rabbitmq.WithPublishOptionsExchange("orders"))
	if err != nil {
		log.Fatal(err)
	}

	err = consumer.Run(func(m rabbitmq.Delivery) rabbitmq.Action {
		fmt.Printf("%s\n", m.Body)
		return rabbitmq.Ack
	})
	if err != nil {
		log.Fatal(err)
	}
}
