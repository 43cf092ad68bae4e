package satellites_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// What the example works with.
var (
	databaseURL = "postgres://me@localhost/shop"
	brokerURL   = "amqp://guest:guest@localhost:5672/"
	prefix      = "shop"
	expiry      = "order-expiry"
)

// TestExample runs the example's code on a real broker and a real database.
func TestOutbox_Example(t *testing.T) {
	databaseURL, brokerURL, prefix, expiry = postgrestest.URL(t), rabbittest.Broker(t).URL(), rabbittest.Prefix(t), rabbittest.Prefix(t)
	ch := rabbittest.Channel(t, rabbittest.Broker(t))
	const durable, autoDelete, exclusive, noWait, autoAck, noLocal = true, false, false, false, true, false
	if _, err := ch.QueueDeclare(expiry, durable, autoDelete, exclusive, noWait, nil); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(expiry, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := postgrestest.Pool(t, databaseURL)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE orders (id text)"); err != nil {
		t.Fatal(err)
	}
	arrived = func() { <-deliveries }
	Example_outbox()
}

var arrived func()

// An order and the message that will expire it are one transaction. A relay in the same program
// publishes it.
func Example_outbox() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := outbox.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}

	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: brokerURL, Prefix: prefix}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	relay, err := outbox.NewRelay(pool, d, outbox.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- relay.Run(ctx) }()

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", "o-17"); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, "", expiry, time.Second, amqp091.Publishing{Body: []byte("o-17")})
	})
	if err != nil {
		log.Fatal(err)
	}

	arrived()
	stop()
	fmt.Println(<-ended)
}
