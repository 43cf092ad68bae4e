package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/retry"
)

// sent is the state S, see schema.sql.
const sent = "S"

type order struct {
	id       int64
	customer string
	state    string
}

// orderID reads the key that a message carries.
func orderID(m amqp091.Delivery) (int64, error) {
	id, err := strconv.ParseInt(string(m.Body), 10, 64)
	return id, retry.Permanent(err)
}

// loadOrder loads an order. A missing order is a permanent error.
func loadOrder(ctx context.Context, tx pgx.Tx, id int64) (order, error) {
	o := order{id: id}
	err := tx.QueryRow(ctx, "SELECT customer, state FROM orders WHERE id = $1", id).Scan(&o.customer, &o.state)
	if errors.Is(err, pgx.ErrNoRows) {
		return o, retry.Permanent(fmt.Errorf("there is no order %d", id))
	}
	return o, err
}

func (o order) setSent(ctx context.Context, tx pgx.Tx, attempt int) error {
	_, err := tx.Exec(ctx, "UPDATE orders SET state = 'S', attempts = $2, error = NULL WHERE id = $1", o.id, attempt)
	return err
}

// setFailure does not change an order that was sent meanwhile: a message may come twice.
func setFailure(ctx context.Context, pool *pgxpool.Pool, id int64, attempt int, failure error, last bool) error {
	_, err := pool.Exec(ctx, `UPDATE orders SET attempts = $2, error = $3, state = CASE WHEN $4 THEN 'F' ELSE state END
		WHERE id = $1 AND state <> 'S'`, id, attempt, failure.Error(), last)
	return err
}
