// Package gorabbitmq is for services that publish with wagslane/go-rabbitmq and leave the
// x-delayed-message plugin. [Wrap] gives a Delayer the shape of go-rabbitmq's Publisher, and reads
// the x-delay header that the plugin reads:
//
//	publisher := gorabbitmq.Wrap(d) // was: publisher, err := rabbitmq.NewPublisher(conn, …)
//	…
//	err = publisher.Publish(body, []string{"order.expired"},
//		rabbitmq.WithPublishOptionsExchange("orders"),
//		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": 1_800_000}))
//
// What differs from the plugin is said in package migrate, and what becomes of each option in
// package gorabbitmq of this module. New code takes the latter, where the delay is an argument.
package gorabbitmq

import (
	"context"

	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/publishoptions"
	"github.com/delayer-go/delayer/migrate"
)

// A KeysError is the error of a message for several routing keys. Each of its errors names its key.
type KeysError = publishoptions.KeysError

// A Publisher publishes as one of go-rabbitmq does, through a Delayer. It is safe for concurrent
// use.
type Publisher struct{ publisher *migrate.Publisher }

// Wrap returns a Publisher on d. The caller closes d.
func Wrap(d delayer.Delayer) *Publisher { return &Publisher{migrate.Wrap(d)} }

// Publish is PublishWithContext without an end of its own: it waits as long as the Delayer does.
func (p *Publisher) Publish(data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	return p.PublishWithContext(context.Background(), data, routingKeys, options...)
}

// PublishWithContext publishes data after the delay in its x-delay header, in milliseconds, once
// for each routing key, and returns once the broker has confirmed them.
func (p *Publisher) PublishWithContext(ctx context.Context, data []byte, routingKeys []string, options ...func(*rabbitmq.PublishOptions)) error {
	exchange, msg, err := publishoptions.Read(data, options)
	if err != nil {
		return err
	}
	const mandatory, immediate = false, false
	return publishoptions.Each(exchange, routingKeys, func(key string) error {
		return p.publisher.PublishWithContext(ctx, exchange, key, mandatory, immediate, msg)
	})
}
