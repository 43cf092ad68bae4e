package satellites_test

import (
	"io/fs"
	"net/url"
	"sync"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/postgres/postgrestest"
	"github.com/delayer-go/delayer/once/pgstore"
	"github.com/delayer-go/delayer/outbox"
)

func TestMigrate_TwiceAndAtOnce(t *testing.T) {
	pool := postgrestest.Pool(t, with(t, postgrestest.URL(t), "default_transaction_isolation", "serializable"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { assert.NoError(t, outbox.Migrate(t.Context(), pool)) })
		all.Go(func() { assert.NoError(t, pgstore.Migrate(t.Context(), pool)) })
	}
	all.Wait()
	require.NoError(t, outbox.Migrate(t.Context(), pool))
	_, err := outbox.ReadLag(t.Context(), pool)
	require.NoError(t, err)
}

func TestMigrate_ByHand(t *testing.T) {
	pool := postgrestest.Pool(t, postgrestest.URL(t))
	require.NoError(t, fs.WalkDir(outbox.Migrations(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(outbox.Migrations(), name)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), string(text))
		return err
	}))
	require.NoError(t, outbox.Migrate(t.Context(), pool), "nothing is left to do")
}

func TestMigrate_MissingOrOlder(t *testing.T) {
	pool := postgrestest.Pool(t, postgrestest.URL(t))
	check := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, outbox.ErrSchema)
		require.ErrorContains(t, err, "outbox.Migrate")
		require.ErrorContains(t, err, "delayer outbox migrate")
	}
	r, err := outbox.NewRelay(pool, &fake{}, outbox.Config{})
	require.NoError(t, err)
	check(r.Run(t.Context()))
	check(outbox.Enqueue(t.Context(), pool, "", "q", 0, amqp091.Publishing{}))
	_, err = outbox.ReadLag(t.Context(), pool)
	check(err)
	_, err = outbox.Failures(t.Context(), pool, 1)
	check(err)

	require.NoError(t, outbox.Migrate(t.Context(), pool))
	_, err = pool.Exec(t.Context(), "UPDATE delayer_migrations SET version = version - 1")
	require.NoError(t, err)
	check(r.Run(t.Context()))
}

func TestRelay_WrongPassword(t *testing.T) {
	at, err := url.Parse(postgrestest.URL(t))
	require.NoError(t, err)
	at.User = url.UserPassword(at.User.Username(), "s3cret")
	r, err := outbox.NewRelay(postgrestest.Pool(t, at.String()), &fake{}, outbox.Config{})
	require.NoError(t, err)
	err = r.Run(t.Context())
	require.ErrorContains(t, err, "password authentication failed")
	assert.NotContains(t, err.Error(), "s3cret")
}
