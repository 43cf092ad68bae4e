package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(relayVariable) != "" {
		if err := relayChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	rabbittest.Main(postgrestest.Wrap(m), rabbit.Options{})
}

// patience is generous: it bounds what hangs, and measures nothing.
const patience = 60 * time.Second

// database returns connections to a database with the outbox's table.
func database(t testing.TB) (*pgxpool.Pool, string) {
	t.Helper()
	address := postgrestest.URL(t)
	pool := postgrestest.Pool(t, address)
	require.NoError(t, outbox.Migrate(t.Context(), pool))
	return pool, address
}

// config is that of a Delayer on a broker. What a relay does depends on no step.
func config(t testing.TB, b *rabbit.Broker) backend.Config {
	return backend.Config{
		Options:      delayer.Options{URL: b.URL(), Prefix: rabbittest.Prefix(t), Logger: quiet},
		BinaryLadder: binaryladder.Config{Steps: "1s,2s,4s,8s"},
	}
}

var quiet = slog.New(slog.DiscardHandler)

func open(t testing.TB, c backend.Config) delayer.Delayer {
	t.Helper()
	d, err := backend.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

// relay runs a relay until the test ends, or the function it returns is called.
func relay(t testing.TB, pool *pgxpool.Pool, d delayer.Delayer, o outbox.Options) (stop func()) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	r, err := outbox.NewRelay(pool, d, o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// enqueue commits messages with the ids in one transaction.
func enqueue(t testing.TB, pool *pgxpool.Pool, queue string, delay time.Duration, ids ...string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, id := range ids {
			if err := outbox.Enqueue(t.Context(), tx, "", queue, delay, amqp091.Publishing{MessageId: id, Body: []byte(id)}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%05d", i)
	}
	return list
}

// queue declares one and returns what arrives there.
func queue(t testing.TB, b *rabbit.Broker) (string, <-chan amqp091.Delivery) {
	t.Helper()
	name := rabbittest.Prefix(t)
	return name, declare(t, b, name)
}

func declare(t testing.TB, b *rabbit.Broker, name string) <-chan amqp091.Delivery {
	t.Helper()
	ch := rabbittest.Channel(t, b)
	const durable, autoDelete, exclusive, noWait, noLocal, autoAck = true, false, false, false, false, true
	_, err := ch.QueueDeclare(name, durable, autoDelete, exclusive, noWait, nil)
	require.NoError(t, err)
	deliveries, err := ch.Consume(name, "", autoAck, exclusive, noLocal, noWait, nil)
	require.NoError(t, err)
	return deliveries
}

// next is the next message.
func next(t testing.TB, deliveries <-chan amqp091.Delivery) amqp091.Delivery {
	t.Helper()
	select {
	case d, open := <-deliveries:
		require.True(t, open, "the connection is lost")
		return d
	case <-time.After(patience):
		require.Fail(t, "no message came")
		return amqp091.Delivery{}
	}
}

// collect waits until each id has come, and returns how often each did.
func collect(t testing.TB, deliveries <-chan amqp091.Delivery, ids []string) map[string]int {
	t.Helper()
	missing, came := map[string]bool{}, map[string]int{}
	for _, id := range ids {
		missing[id] = true
	}
	for len(missing) > 0 {
		id := next(t, deliveries).MessageId
		delete(missing, id)
		came[id]++
	}
	return came
}

// empty waits until the table is.
func empty(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		l, err := outbox.ReadLag(t.Context(), pool)
		return assert.NoError(t, err) && l == outbox.Lag{}
	}, patience, 20*time.Millisecond)
}

// fake is a Delayer whose outcome the test decides.
type fake struct {
	limits  delayer.Limits
	publish func(ctx context.Context, delay time.Duration, msg amqp091.Publishing) error
}

func (f *fake) Publish(ctx context.Context, _, _ string, delay time.Duration, msg amqp091.Publishing) error {
	return f.publish(ctx, delay, msg)
}
func (f *fake) Limits() delayer.Limits { return f.limits }
func (f *fake) Close() error           { return nil }
