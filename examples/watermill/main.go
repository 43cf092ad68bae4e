// Command watermill publishes a message of ThreeDotsLabs/watermill that arrives after two seconds,
// and consumes it with watermill-amqp.
//
//	DELAYER_URL=amqp://guest:guest@localhost:5672/ go run ./examples/watermill
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/watermilldelay"
)

const topic = "example-watermill"

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg, err := backend.FromEnv(backend.Config{}, os.Environ())
	if err != nil {
		return err
	}
	config := amqp.NewDurableQueueConfig(cfg.URL)
	config.Marshaler = amqp.DefaultMarshaler{PreprocessDelivery: watermilldelay.StringHeaders}
	subscriber, err := amqp.NewSubscriber(config, watermill.NopLogger{})
	if err != nil {
		return err
	}
	defer func() { _ = subscriber.Close() }()
	messages, err := subscriber.Subscribe(ctx, topic) // declares the queue
	if err != nil {
		return err
	}

	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	msg := message.NewMessage(watermill.NewUUID(), message.Payload("order 7 has not been paid"))
	delay.Message(msg, delay.For(2*time.Second))
	start := time.Now()
	if err := watermilldelay.NewPublisher(d, watermilldelay.Config{}).Publish(topic, msg); err != nil {
		return err
	}

	got := <-messages
	fmt.Printf("%s, after 2s: %t\n", got.Payload, time.Since(start) >= 2*time.Second)
	got.Ack()
	return nil
}
