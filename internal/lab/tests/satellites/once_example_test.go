package satellites_test

import (
	"context"
	"log"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/postgres/postgrestest"
	"github.com/delayer-go/delayer/once"
	"github.com/delayer-go/delayer/once/pgstore"
)

// What the example works with.
var (
	marks      string
	deliveries <-chan amqp091.Delivery
)

// noAcks is where the test's deliveries are acknowledged.
type noAcks struct{ acked, rejected int }

func (a *noAcks) Ack(uint64, bool) error        { a.acked++; return nil }
func (a *noAcks) Nack(uint64, bool, bool) error { a.rejected++; return nil }
func (a *noAcks) Reject(uint64, bool) error     { a.rejected++; return nil }

// TestOnce_Example runs the example of package pgstore on a real database.
func TestOnce_Example(t *testing.T) {
	asShown(t, "onceExample", "once/pgstore", "ExampleNew", map[string]string{"marks": `"postgres://me@localhost/shop"`})
	marks = postgrestest.URL(t)
	_, err := postgrestest.Pool(t, marks).Exec(t.Context(), "CREATE TABLE orders (id text, reminders int); INSERT INTO orders VALUES ('o-17', 0)")
	require.NoError(t, err)
	acks := &noAcks{}
	came := make(chan amqp091.Delivery, 3)
	for range 3 {
		came <- amqp091.Delivery{Acknowledger: acks, MessageId: "m-1", Body: []byte("o-17")}
	}
	close(came)
	deliveries = came
	onceExample()
	require.Equal(t, noAcks{acked: 3}, *acks)
	var reminders int
	require.NoError(t, postgrestest.Pool(t, marks).QueryRow(t.Context(), "SELECT reminders FROM orders").Scan(&reminders))
	require.Equal(t, 1, reminders)
}

// onceExample is that of package pgstore.
func onceExample() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, marks)
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
