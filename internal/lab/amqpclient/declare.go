package amqpclient

import (
	"context"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/topology"
)

// What the bare booleans of amqp091-go mean here.
const (
	durable, autoDelete, exclusive, internal, noWait = true, false, false, false, false
	ifUnused, ifEmpty                                = false, false
)

// Declare declares the queues, exchanges and bindings of a plan, by Do.
func (c *Client) Declare(ctx context.Context, p topology.Plan) error {
	return c.Do(ctx, func(ch *amqp091.Channel) error {
		for _, q := range p.Queues {
			if _, err := ch.QueueDeclare(q.Name, durable, autoDelete, exclusive, noWait, q.Args); err != nil {
				return fmt.Errorf("queue %s: %w", q.Name, err)
			}
		}
		for _, x := range p.Exchanges {
			if err := ch.ExchangeDeclare(x.Name, x.Kind, durable, autoDelete, internal, noWait, x.Args()); err != nil {
				return fmt.Errorf("exchange %s: %w", x.Name, err)
			}
		}
		for _, b := range p.Bindings {
			bind := ch.QueueBind
			if b.ToExchange {
				bind = ch.ExchangeBind
			}
			if err := bind(b.Target, b.Key, b.Source, noWait, nil); err != nil {
				return fmt.Errorf("binding %s to %s: %w", b.Source, b.Target, err)
			}
		}
		return nil
	})
}

// Remove deletes the exchanges of a plan, and its queues with their messages, by Do. What does not
// exist is no error.
func (c *Client) Remove(ctx context.Context, p topology.Plan) error {
	return c.Do(ctx, func(ch *amqp091.Channel) error {
		for _, x := range p.Exchanges {
			if err := ch.ExchangeDelete(x.Name, ifUnused, noWait); err != nil {
				return fmt.Errorf("exchange %s: %w", x.Name, err)
			}
		}
		for _, q := range p.Queues {
			if _, err := ch.QueueDelete(q.Name, ifUnused, ifEmpty, noWait); err != nil {
				return fmt.Errorf("queue %s: %w", q.Name, err)
			}
		}
		return nil
	})
}
