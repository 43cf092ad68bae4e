package tracing_test

import (
	"context"
	"log"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/tracing"
)

// A publisher and a consumer whose spans are linked, however long the message waits in between.
func Example() {
	t := tracing.New(tracing.Config{})
	d, err := backend.Open(context.Background(), backend.Config{Options: delayer.Options{URL: "amqp://guest:guest@localhost:5672/"}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	err = t.Wrap(d).Publish(context.Background(), "orders", "order.expired", time.Hour, amqp091.Publishing{Body: []byte("order 7")})
	if err != nil {
		log.Fatal(err)
	}

	var deliveries <-chan amqp091.Delivery // of the consumer
	for delivery := range deliveries {
		_, span := t.Process(context.Background(), &delivery)
		_ = delivery.Ack(false)
		span.End()
	}
}
