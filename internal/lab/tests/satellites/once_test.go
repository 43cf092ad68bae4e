package satellites_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	"github.com/delayer-go/delayer/internal/lab/postgrestest"
	"github.com/delayer-go/delayer/once"
	"github.com/delayer-go/delayer/once/pgstore"
	"github.com/delayer-go/delayer/outbox"
)

var errFailed = errors.New("failed")

// store returns one on a database that also has a table of effects.
func store(t *testing.T, cfg pgstore.Config) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	pool := postgrestest.Pool(t, postgrestest.URL(t))
	require.NoError(t, pgstore.Migrate(t.Context(), pool))
	require.NoError(t, outbox.Migrate(t.Context(), pool))
	_, err := pool.Exec(t.Context(), "CREATE TABLE effects (id text)")
	require.NoError(t, err)
	cfg.Scope, cfg.Logger = "test", silent
	s, err := pgstore.New(pool, cfg)
	require.NoError(t, err)
	require.NoError(t, s.Check(t.Context()))
	return s, pool
}

// effect notes a delivery in the transaction, and a message in the outbox.
func effect(ctx context.Context, tx pgx.Tx, d amqp091.Delivery) error {
	if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", strings.ToValidUTF8(strings.ReplaceAll(d.MessageId, "\x00", ""), "")); err != nil {
		return err
	}
	return outbox.Enqueue(ctx, tx, "", "q", time.Second, amqp091.Publishing{})
}

func count(t *testing.T, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func TestStore_EffectAndMark(t *testing.T) {
	s, pool := store(t, pgstore.Config{})
	outcome := errFailed
	h := once.Handler(s, func(ctx context.Context, tx pgx.Tx, d amqp091.Delivery) error {
		return errors.Join(effect(ctx, tx, d), outcome)
	})
	d := amqp091.Delivery{MessageId: "m"}
	require.ErrorIs(t, h(t.Context(), d), errFailed)
	assert.Zero(t, count(t, pool, "effects")+count(t, pool, "delayer_once")+count(t, pool, "delayer_outbox"))
	outcome = nil
	for range 3 {
		require.NoError(t, h(t.Context(), d))
	}
	assert.Equal(t, []int{1, 1, 1}, []int{count(t, pool, "effects"), count(t, pool, "delayer_once"), count(t, pool, "delayer_outbox")})
	other, err := pgstore.New(pool, pgstore.Config{Scope: "other", Logger: silent})
	require.NoError(t, err)
	require.NoError(t, once.Handler(other, effect)(t.Context(), d))
	assert.Equal(t, 2, count(t, pool, "effects"), "another scope has its own marks")
	require.NoError(t, s.Do(t.Context(), "bytes\xff\x00", func(context.Context, pgx.Tx) error { return nil }), "AMQP's ids are bytes")
}

// TestStore_AnyID: an id too long for the index is known by its hash.
func TestStore_AnyID(t *testing.T) {
	s, pool := store(t, pgstore.Config{})
	random := make([]byte, 6000) // what can be compressed fits
	_, _ = rand.Read(random)
	for i, id := range []string{string(random), string(random[1:]), string(random[:255]), string(random[:256]), "", "\x00"} {
		for range 2 {
			require.NoError(t, once.Handler(s, effect)(t.Context(), amqp091.Delivery{MessageId: cmp.Or(id, "x")}))
		}
		assert.Equal(t, i+1, count(t, pool, "effects"), "%d bytes", len(id))
	}
}

func TestStore_ConcurrentDuplicates(t *testing.T) {
	s, pool := store(t, pgstore.Config{})
	h := once.Handler(s, effect)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			assert.NoError(t, h(t.Context(), amqp091.Delivery{MessageId: fmt.Sprint(i % 10)}))
		})
	}
	all.Wait()
	assert.Equal(t, 10, count(t, pool, "effects"))
}

func TestStore_Sweep(t *testing.T) {
	s, pool := store(t, pgstore.Config{Age: time.Hour})
	_, err := pool.Exec(t.Context(), `INSERT INTO delayer_once
		SELECT scope, i::text::bytea, now() - interval '2 hours' FROM generate_series(1, 7000) i, (VALUES ('test'), ('other')) s (scope)`)
	require.NoError(t, err)
	require.NoError(t, s.Do(t.Context(), "new", func(context.Context, pgx.Tx) error { return nil }))
	assert.Equal(t, 7000+2000+1, count(t, pool, "delayer_once"), "a few at a time")
	require.NoError(t, s.Do(t.Context(), "newer", func(context.Context, pgx.Tx) error { return nil }))
	assert.Equal(t, 7000+2, count(t, pool, "delayer_once"), "another scope has its own age")
}

func TestStore_MissingTable(t *testing.T) {
	pool := postgrestest.Pool(t, postgrestest.URL(t))
	s, err := pgstore.New(pool, pgstore.Config{Scope: "test", Logger: silent})
	require.NoError(t, err)
	for _, err := range []error{s.Check(t.Context()), s.Do(t.Context(), "m", nil)} {
		require.ErrorIs(t, err, pgstore.ErrSchema)
		require.ErrorContains(t, err, "pgstore.Migrate")
	}
}

func TestNew_Refuses(t *testing.T) {
	_, err := pgstore.New(nil, pgstore.Config{})
	require.ErrorIs(t, err, delayer.ErrConfig)
	_, err = pgstore.New(nil, pgstore.Config{Scope: "s", Age: -1})
	require.ErrorIs(t, err, delayer.ErrConfig)
	for _, scope := range []string{"a\x00b", "\xff", strings.Repeat("s", 256)} {
		_, err = pgstore.New(nil, pgstore.Config{Scope: scope})
		require.ErrorIs(t, err, delayer.ErrConfig, "%q", scope)
	}
}
