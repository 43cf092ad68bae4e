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

var deliveries <-chan amqp091.Delivery // what the program consumes; empty here

// What the handler does in its transaction and the mark commit together: an order whose message
// comes twice is reminded once.
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
	store, err := pgstore.New(pool, pgstore.Config{Scope: "order-reminder"})
	if err != nil {
		log.Fatal(err)
	}
	handle := once.Handler(store, func(ctx context.Context, tx pgx.Tx, d amqp091.Delivery) error {
		_, err := tx.Exec(ctx, "UPDATE orders SET reminders = reminders + 1 WHERE id = $1", string(d.Body))
		return err
	})
	for d := range deliveries {
		if err := handle(ctx, d); err != nil {
			_ = d.Nack(false, true) // not multiple, requeue; package retry waits longer each time
			continue
		}
		_ = d.Ack(false)
	}
}
