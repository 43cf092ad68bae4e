package main

import (
	"context"
	_ "embed"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/once/pgstore"
	"github.com/delayer-go/delayer/outbox"
)

//go:embed schema.sql
var schema string

// setup creates the tables and the queue. It may run at every deployment.
func setup(ctx context.Context, c config, _ []string) error {
	if _, err := c.pool.Exec(ctx, schema); err != nil {
		return err
	}
	if err := errors.Join(outbox.Migrate(ctx, c.pool), pgstore.Migrate(ctx, c.pool)); err != nil {
		return err
	}
	return declareQueue(c)
}

// declareQueue declares a quorum queue. From RabbitMQ 4.0 on, these drop a message after 20
// deliveries by default. A worker that is killed often needs more.
func declareQueue(c config) error {
	conn, err := amqp091.Dial(c.delayer.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	_, err = ch.QueueDeclare(c.queue, durable, autoDelete, exclusive, noWait, amqp091.Table{
		"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000),
	})
	return err
}
