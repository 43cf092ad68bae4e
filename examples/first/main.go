// Command first publishes a message and receives it three seconds later. docs/start.md shows it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend"
)

const queue = "hello"

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg, err := backend.FromEnv(backend.Config{}, os.Environ()) // DELAYER_URL, and any other key
	if err != nil {
		return err
	}
	conn, err := amqp091.Dial(cfg.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	arrived, err := consume(conn)
	if err != nil {
		return err
	}
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()

	start := time.Now()
	if err := d.Publish(ctx, "", queue, 3*time.Second, amqp091.Publishing{Body: []byte("hello")}); err != nil {
		return err
	}
	fmt.Println("stored")
	fmt.Printf("%s arrived after %.1f s\n", (<-arrived).Body, time.Since(start).Seconds())
	return nil
}

// consume declares the queue and reads from it, as any consumer does.
func consume(conn *amqp091.Connection) (<-chan amqp091.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	const durable, autoDelete, exclusive, noWait, autoAck, noLocal = true, false, false, false, true, false
	if _, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, amqp091.Table{"x-queue-type": "quorum"}); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", autoAck, exclusive, noLocal, noWait, nil)
}
