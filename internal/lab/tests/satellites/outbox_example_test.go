package satellites_test

import (
	"context"
	"log"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// What the example works with.
var (
	databaseURL, expiry string
	expireAfter         = time.Second
)

// TestOutbox_Example runs the example of package outbox on a real database, and a relay beside it.
func TestOutbox_Example(t *testing.T) {
	asShown(t, "outboxExample", "outbox", "ExampleEnqueue", map[string]string{
		"databaseURL": `"postgres://me@localhost/shop"`, "expiry": `"order-expiry"`, "expireAfter": "15*time.Minute",
	})
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	databaseURL, expiry = postgrestest.URL(t), r.Queue("order-expiry", nil)
	in := r.Consume(expiry)
	pool := postgrestest.Pool(t, databaseURL)
	require.NoError(t, outbox.Migrate(t.Context(), pool))
	_, err := pool.Exec(t.Context(), "CREATE TABLE orders (id text)")
	require.NoError(t, err)
	begin := time.Now()
	outboxExample()

	d := rabbittest.Open(t, backend.Config{Options: delayer.Options{URL: r.Broker.URL(), Prefix: rabbittest.Prefix(t)}})
	relay, err := outbox.NewRelay(pool, d, outbox.Config{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- relay.Run(ctx) }()
	require.Equal(t, "o-17", string(rabbittest.Next(t, in).Body))
	require.GreaterOrEqual(t, time.Since(begin), expireAfter, "early")
	stop()
	require.NoError(t, <-ended)
}

// outboxExample is that of package outbox.
func outboxExample() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", "o-17"); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, "", expiry, expireAfter, amqp091.Publishing{Body: []byte("o-17")})
	})
	if err != nil {
		log.Fatal(err)
	}
}
