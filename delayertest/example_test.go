package delayertest_test

import (
	"context"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/delayertest"
)

func Example() {
	d := delayertest.New(delayertest.Config{})
	// The program under test is given d.
	err := d.Publish(context.Background(), "orders", "order.expired", 30*time.Minute, amqp091.Publishing{Body: []byte("order 42")})

	fmt.Println(err, len(d.Published()), d.Waiting()[0].Delay)
	for _, m := range d.Advance(30 * time.Minute) {
		fmt.Printf("%s: %s\n", m.RoutingKey, m.Body) // or call the program's handler
	}
	// Output:
	// <nil> 1 30m0s
	// order.expired: order 42
}
