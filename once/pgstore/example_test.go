package pgstore_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/once"
	"github.com/delayer-go/delayer/once/pgstore"
)

// What the handler does in its transaction and the mark commit together.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://me@localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}
	store, err := pgstore.New(pool, pgstore.Config{Scope: "order-expiry"})
	if err != nil {
		log.Fatal(err)
	}
	handle := once.Handler(store, func(ctx context.Context, tx pgx.Tx, d amqp091.Delivery) error {
		_, err := tx.Exec(ctx, "UPDATE orders SET expired = true WHERE id = $1", string(d.Body))
		return err
	})
	_ = handle // retry.Consume takes it
}
