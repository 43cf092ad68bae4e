package delayer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
)

// A message that arrives later: where the code said ch.PublishWithContext, it says d.Publish with a
// delay.
func Example() {
	ctx := context.Background()
	d, err := backend.OpenURL(ctx, "amqp://guest:guest@localhost:5672/")
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	err = d.Publish(ctx, "orders", "order.expired", 30*time.Minute, amqp091.Publishing{Body: []byte("order 42")})
	if err != nil {
		log.Fatal(err)
	}
}

// Publishing again after an error that leaves it open whether the message was stored may deliver it
// twice.
func ExampleSafeToRetry() {
	ctx := context.Background()
	d, err := backend.OpenURL(ctx, os.Getenv("DELAYER_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	for {
		err = d.Publish(ctx, "orders", "order.expired", 30*time.Minute, amqp091.Publishing{Body: []byte("order 42")})
		if err == nil || !delayer.SafeToRetry(err) {
			break
		}
		fmt.Println("not stored, once more:", err)
	}
}
