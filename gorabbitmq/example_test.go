package gorabbitmq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/gorabbitmq"
)

// d is what backend.Open returns; this one prints.
var d delayer.Delayer = printer{}

// A reminder for two queues, with go-rabbitmq's options.
func Example() {
	publisher := gorabbitmq.NewPublisher(d)
	err := publisher.PublishDelayed(context.Background(), 30*time.Minute, []byte("order 7 has not been paid"),
		[]string{"reminder.mail", "reminder.sms"},
		rabbitmq.WithPublishOptionsExchange("orders"),
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"order": "o-7"}))
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// to orders with key reminder.mail in 30m0s: order 7 has not been paid, map[order:o-7]
	// to orders with key reminder.sms in 30m0s: order 7 has not been paid, map[order:o-7]
}

// A service that leaves the x-delayed-message plugin publishes as before: the header becomes the
// delay.
func ExamplePublisher_Publish() {
	publisher := gorabbitmq.NewPublisher(d) // was: publisher, err := rabbitmq.NewPublisher(conn, …)
	err := publisher.Publish([]byte("order 7 has not been paid"), []string{"order.expired"},
		rabbitmq.WithPublishOptionsExchange("orders"),
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": 1_800_000, "order": "o-7"}))
	if err != nil {
		log.Fatal(err)
	}
	// Output: to orders with key order.expired in 30m0s: order 7 has not been paid, map[order:o-7]
}

type printer struct{ delayer.Delayer }

func (printer) Publish(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	fmt.Printf("to %s with key %s in %v: %s, %v\n", exchange, key, delay, msg.Body, msg.Headers)
	return nil
}
