package outbox_test

import (
	"context"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/outbox"
)

// An order and the message that will expire it are one transaction. `delayer outbox run` publishes
// it.
func ExampleEnqueue() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://me@localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", "o-17"); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, "", "order-expiry", 15*time.Minute, amqp091.Publishing{Body: []byte("o-17")})
	})
	if err != nil {
		log.Fatal(err)
	}
}
