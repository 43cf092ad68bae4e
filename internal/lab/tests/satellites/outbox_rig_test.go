package satellites_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
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
	"github.com/delayer-go/delayer/internal/lab/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

func database(t testing.TB) (*pgxpool.Pool, string) {
	t.Helper()
	address := postgrestest.URL(t)
	pool := postgrestest.Pool(t, address)
	require.NoError(t, outbox.Migrate(t.Context(), pool))
	return pool, address
}

// with returns a database's address with a parameter added.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx takes a + for what it is
	return u.String()
}

// config is that of a Delayer on a broker. What a relay does depends on no step.
func config(t testing.TB, b *rabbit.Broker) backend.Config {
	return backend.Config{
		Options:      delayer.Options{URL: b.URL(), Prefix: rabbittest.Prefix(t), Logger: silent},
		BinaryLadder: binaryladder.Config{Steps: "1s,2s,4s,8s"},
	}
}

// relay runs a relay until the test ends, or the function it returns is called.
func relay(t testing.TB, pool *pgxpool.Pool, d delayer.Delayer, cfg outbox.Config) (stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = silent
	}
	r, err := outbox.NewRelay(pool, d, cfg)
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
	r := rabbittest.NewRig(t, b)
	name := r.Queue("q", nil)
	return name, r.Consume(name)
}

func collect(t testing.TB, deliveries <-chan amqp091.Delivery, ids []string) map[string]int {
	t.Helper()
	missing, came := map[string]bool{}, map[string]int{}
	for _, id := range ids {
		missing[id] = true
	}
	for len(missing) > 0 {
		id := rabbittest.Next(t, deliveries).MessageId
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
	}, rabbittest.Patience, 20*time.Millisecond)
}

// fake is a Delayer whose outcome the test decides.
type fake struct {
	delayer.Delayer // nil: nothing else is called

	limits  delayer.Limits
	publish func(ctx context.Context, delay time.Duration, msg amqp091.Publishing) error
}

func (f *fake) Publish(ctx context.Context, _, _ string, delay time.Duration, msg amqp091.Publishing) error {
	return f.publish(ctx, delay, msg)
}
func (f *fake) Limits() delayer.Limits { return f.limits }
func (f *fake) Close() error           { return nil }
