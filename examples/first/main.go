// Command first publishes a message and receives it three seconds later. README.md shows it.
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
	// The consumer. Any client will do.
	conn := must(amqp091.Dial(url))
	ch := must(conn.Channel())
	queue := must(ch.QueueDeclare("hello", true, false, false, false, nil))
	arrived := must(ch.Consume(queue.Name, "", true, false, false, false, nil))

	// The publisher.
	ctx := context.Background()
	d := must(backend.OpenURL(ctx, url))
	msg := amqp091.Publishing{Body: []byte("hello")}
	check(d.Publish(ctx, "", queue.Name, 3*time.Second, msg))
	fmt.Println("stored")

	start := time.Now()
	fmt.Printf("%s arrived after %.1f s\n", (<-arrived).Body, time.Since(start).Seconds())
	check(d.Close())
	check(conn.Close())
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
