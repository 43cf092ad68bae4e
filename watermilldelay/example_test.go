package watermilldelay_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/watermilldelay"
)

// d is what backend.Open returns; this one prints.
var d delayer.Delayer = printer{}

// A message is delayed by Watermill's own package for that.
func Example() {
	publisher := watermilldelay.NewPublisher(d, watermilldelay.Config{})
	msg := message.NewMessage("order-7", message.Payload("order 7 has not been paid"))
	delay.Message(msg, delay.For(30*time.Minute))
	if err := publisher.Publish("orders.expired", msg); err != nil {
		log.Fatal(err)
	}
	// Output: to queue orders.expired in 30m0s: order-7, order 7 has not been paid
}

type printer struct{ delayer.Delayer }

func (printer) Publish(_ context.Context, _, key string, delay time.Duration, msg amqp091.Publishing) error {
	fmt.Printf("to queue %s in %v: %s, %s\n", key, delay, msg.MessageId, msg.Body)
	return nil
}

func (p printer) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, p.Publish, messages)
}
