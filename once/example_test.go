package once_test

import (
	"context"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/once"
)

// A duplicate is acknowledged, because the handler returns nil, and does not run again.
func ExampleHandler() {
	handle := once.Handler(once.NewMemory(24*time.Hour), func(_ context.Context, _ once.NoTx, d amqp091.Delivery) error {
		fmt.Printf("handled %s\n", d.Body)
		return nil
	})
	d := amqp091.Delivery{MessageId: "m-1", Body: []byte("hello")}
	fmt.Println(handle(context.Background(), d))
	fmt.Println(handle(context.Background(), d))
	fmt.Println(handle(context.Background(), amqp091.Delivery{Exchange: "orders", RoutingKey: "paid"}))
	// Output:
	// handled hello
	// <nil>
	// <nil>
	// once: message from exchange "orders" with key "paid": the message has no id (set MessageId when publishing, or publish through a Delayer)
}
