package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/jackc/pgx/v5"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/outbox"
)

// save stands for the service that accepts orders.
func save(ctx context.Context, c config, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("save: want the number of orders, not %q", args)
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	for range n {
		if err := saveOrder(ctx, c, "acme"); err != nil {
			return err
		}
	}
	return nil
}

// saveOrder saves an order in state I and enqueues its message in the same transaction. If that
// commits, the message is delivered, even if this process or the broker crashes.
func saveOrder(ctx context.Context, c config, customer string) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		var id int64
		err := tx.QueryRow(ctx, "INSERT INTO orders (customer, overdue) VALUES ($1, now() + $2) RETURNING id", customer, c.overdue).Scan(&id)
		if err != nil {
			return err
		}
		return enqueue(ctx, tx, c.queue, id)
	})
}

// enqueue enqueues an order's message. Its id is made from the order's, so that the order has one
// effect however often the message is sent.
func enqueue(ctx context.Context, tx pgx.Tx, queue string, id int64) error {
	const defaultExchange, delay = "", 0
	key := strconv.FormatInt(id, 10)
	return outbox.Enqueue(ctx, tx, defaultExchange, queue, delay, amqp091.Publishing{
		MessageId: "order-" + key, DeliveryMode: amqp091.Persistent, Body: []byte(key),
	})
}

// relay publishes messages of committed orders until ctx ends. Several may run.
func relay(ctx context.Context, c config, _ []string) error {
	d, err := backend.Open(ctx, c.delayer)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	r, err := outbox.NewRelay(c.pool, d, outbox.Config{})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

const takeOverdue = `
UPDATE orders SET overdue = now() + $1 WHERE id IN (
	SELECT id FROM orders WHERE state = 'I' AND overdue < now() ORDER BY overdue LIMIT 1000 FOR UPDATE SKIP LOCKED)
RETURNING id`

// sweep sends the messages of overdue orders again. The outbox loses no message: sweep is for
// queues that were purged and for workers that could not write the state F. The worker ignores an
// order that was sent meanwhile.
func sweep(ctx context.Context, c config, _ []string) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, takeOverdue, c.overdue)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		for _, id := range ids {
			slog.Warn("an order is overdue: its message is sent again", "order", id)
			if err := enqueue(ctx, tx, c.queue, id); err != nil {
				return err
			}
		}
		return err
	})
}
