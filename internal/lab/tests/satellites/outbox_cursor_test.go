package satellites_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// begin opens a transaction that has a snapshot, and ends it with the test.
func begin(t testing.TB, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT count(*) FROM delayer_outbox")
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
	return tx
}

// TestRelay_OpenTransaction: an open transaction keeps the index entries of published rows. The
// relay reads each of them a few times, not with every batch.
func TestRelay_OpenTransaction(t *testing.T) {
	const backlog, batch, single = 5000, 100, 20
	pool, address := database(t)
	begin(t, pool)
	require.NoError(t, outbox.Enqueue(t.Context(), pool, "", "q", 0, amqp091.Publishing{MessageId: "backlog"}))
	_, err := pool.Exec(t.Context(), `INSERT INTO delayer_outbox (message, body, due)
		SELECT message, body, due FROM delayer_outbox, generate_series(2, $1)`, backlog)
	require.NoError(t, err)

	d, own := newCounter(), postgrestest.Pool(t, address)
	stop := relay(t, own, d, outbox.Config{Batch: batch, Poll: time.Hour})
	empty(t, pool)
	for _, id := range names(single) {
		enqueue(t, pool, "q", 0, id)
		d.await(t, id)
	}
	empty(t, pool)
	stop()
	own.Close() // a connection reports what it read when it ends
	others := "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%next_try%'"
	require.Eventually(t, func() bool { return count(t, pool, others) == 0 }, rabbittest.Patience, 10*time.Millisecond)
	var read int
	require.NoError(t, pool.QueryRow(t.Context(),
		"SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'delayer_outbox_next_try'").Scan(&read))
	t.Logf("%d index entries read for %d messages", read, backlog+single)
	assert.GreaterOrEqual(t, read, backlog, "the relay reads this index")
	assert.Less(t, read, 4*backlog)
	assert.Equal(t, backlog, d.await(t)["backlog"])
}

// TestRelay_LateCommit: a transaction that enqueued earlier than another commits after that. No
// look from the beginning finds its message: its notification says where it is.
func TestRelay_LateCommit(t *testing.T) {
	pool, _ := database(t)
	d := newCounter()
	relay(t, pool, d, outbox.Config{Poll: time.Hour})
	enqueue(t, pool, "q", 0, "the relay listens")
	d.await(t, "the relay listens")
	for _, id := range []string{"a", "b", "c"} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, outbox.Enqueue(t.Context(), tx, "", "q", 0, amqp091.Publishing{MessageId: "late " + id}))
		enqueue(t, pool, "q", 0, "early "+id)
		assert.Zero(t, d.await(t, "early "+id)["late "+id])
		require.NoError(t, tx.Commit(t.Context()))
		d.await(t, "late "+id)
	}
	empty(t, pool)
}

// TestRelay_RowsBeforeTheCursor: what nothing tells of is found by a look from the beginning.
func TestRelay_RowsBeforeTheCursor(t *testing.T) {
	pool, _ := database(t)
	enqueue(t, pool, "q", 0, "locked")
	tx := begin(t, pool) // as a relay has that will be killed
	_, err := tx.Exec(t.Context(), "SELECT FROM delayer_outbox FOR UPDATE")
	require.NoError(t, err)
	d := newCounter()
	relay(t, pool, d, outbox.Config{Poll: 10 * time.Millisecond})
	enqueue(t, pool, "q", 0, "early")
	assert.Zero(t, d.await(t, "early")["locked"])
	require.NoError(t, tx.Rollback(t.Context()))
	d.await(t, "locked")
	_, err = pool.Exec(t.Context(), `INSERT INTO delayer_outbox (message, body, due, next_try)
		VALUES ('{"properties": {"message_id": "by hand"}}', '', now(), now() - interval '1 day')`)
	require.NoError(t, err)
	d.await(t, "by hand")
	empty(t, pool)
}

// TestRelay_ANotificationByHand: NOTIFY makes relays look from the beginning.
func TestRelay_ANotificationByHand(t *testing.T) {
	pool, _ := database(t)
	d := newCounter()
	relay(t, pool, d, outbox.Config{Poll: time.Hour})
	enqueue(t, pool, "q", 0, "the relay listens")
	d.await(t, "the relay listens")
	_, err := pool.Exec(t.Context(), `INSERT INTO delayer_outbox (message, body, due, next_try)
		VALUES ('{"properties": {"message_id": "by hand"}}', '', now(), '-infinity'); NOTIFY delayer_outbox`)
	require.NoError(t, err)
	d.await(t, "by hand")
	empty(t, pool)
}
