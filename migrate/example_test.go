package migrate_test

import (
	"context"
	"fmt"
	"log"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/migrate"
)

// d is what backend.Open returns; this one prints.
var d delayer.Delayer = printer{}

// A service publishes as before, and the header becomes the delay.
func ExampleNewPublisher() {
	publisher := migrate.NewPublisher(d)
	const mandatory, immediate = false, false
	err := publisher.PublishWithContext(context.Background(), "orders", "order.expired", mandatory, immediate, amqp091.Publishing{
		Headers:     amqp091.Table{"x-delay": 1_800_000, "order": "o-7"},
		ContentType: "text/plain",
		Body:        []byte("order 7 has not been paid"),
	})
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
