// Command first publishes a message and receives it three seconds later. README.md and
// docs/start.md show it.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend"
)

const url = "amqp://guest:guest@localhost:5672/"

func main() {
	// The consumer knows nothing of Delayer: any client will do.
	conn, err := amqp091.Dial(url)
	check(err)
	ch, err := conn.Channel()
	check(err)
	queue, err := ch.QueueDeclare("hello", true, false, false, false, nil)
	check(err)
	arrived, err := ch.Consume(queue.Name, "", true, false, false, false, nil)
	check(err)

	// The publisher.
	ctx := context.Background()
	d, err := backend.OpenURL(ctx, url)
	check(err)
	err = d.Publish(ctx, "", queue.Name, 3*time.Second, amqp091.Publishing{Body: []byte("hello")})
	check(err)
	fmt.Println("stored")

	start := time.Now()
	fmt.Printf("%s arrived after %.1f s\n", (<-arrived).Body, time.Since(start).Seconds())
	check(d.Close())
	check(conn.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
