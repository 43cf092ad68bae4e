package delayer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// What a consumer can know of the delay of a message.
func ExampleParseHeader() {
	delivery := amqp091.Delivery{ // as it comes from a channel's Consume
		RoutingKey: "order.expired",
		Headers:    amqp091.Table{delayer.Header: "MFRGGZDFMY1 1795234405786 1800000 orders"},
	}
	envelope, err := delayer.ParseHeader(delivery.Headers)
	switch {
	case errors.Is(err, delayer.ErrNotFound):
		fmt.Println("published without a Delayer")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Printf("message %s to exchange %s with key %s waited for %v\n", envelope.ID, envelope.Exchange, delivery.RoutingKey, envelope.Delay)
		fmt.Println("due", envelope.Due.UTC().Format(time.RFC3339))
		fmt.Println("late by", time.UnixMilli(1795234405800).Sub(envelope.Due)) // time.Since(envelope.Due) in a consumer
	}
	// Output:
	// message MFRGGZDFMY1 to exchange orders with key order.expired waited for 30m0s
	// due 2026-11-21T04:13:25Z
	// late by 14ms
}

// d is what backend.Open returns; this one prints.
var d delayer.Delayer = printer{}

// A reminder at nine in the morning. That of a day that has passed is published at once.
func ExampleDelayer_atATime() {
	nine := time.Date(2020, time.January, 31, 9, 0, 0, 0, time.UTC)
	err := d.Publish(context.Background(), "", "reminders", max(0, time.Until(nine)), amqp091.Publishing{Body: []byte("good morning")})
	if err != nil {
		log.Fatal(err)
	}
	// Output: to reminders in 0s: good morning
}

// Each message has a result of its own.
func ExampleDelayer_publishBatch() {
	messages := []delayer.Message{
		{Key: "invoices", Delay: time.Hour, Publishing: amqp091.Publishing{MessageId: "7/invoice", Body: []byte("order 7")}},
		{Key: "nowhere", Delay: time.Hour, Publishing: amqp091.Publishing{MessageId: "7/survey", Body: []byte("order 7")}},
	}
	for i, err := range d.PublishBatch(context.Background(), messages) {
		switch {
		case err == nil:
		case delayer.SafeToRetry(err):
			fmt.Println(messages[i].Publishing.MessageId, "is not stored:", err)
		default:
			fmt.Println(messages[i].Publishing.MessageId, "may be stored:", err)
		}
	}
	// Output:
	// to invoices in 1h0m0s: order 7
	// 7/survey is not stored: delayer: publish to queue "nowhere": unroutable
}

type printer struct{ delayer.Delayer }

func (printer) Publish(_ context.Context, _, key string, delay time.Duration, msg amqp091.Publishing) error {
	if key == "nowhere" {
		return &delayer.Error{Op: "publish", Object: `to queue "nowhere"`, Kind: delayer.ErrUnroutable}
	}
	fmt.Printf("to %s in %v: %s\n", key, delay, msg.Body)
	return nil
}

func (p printer) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, p.Publish, messages)
}
