package satellites_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/docs"
	"github.com/delayer-go/delayer/internal/lab/postgrestest"
	"github.com/delayer-go/delayer/internal/lib/schema"
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
	files, err := filepath.Glob("../../../../outbox/migrations/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), string(text))
		require.NoError(t, err)
	}
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

var errSchema = errors.New("the database is not migrated")

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestSchema_ApplyAndCheckByVersion(t *testing.T) {
	pool := postgrestest.Pool(t, postgrestest.URL(t))
	one := fstest.MapFS{"0001_a.sql": file(`
		CREATE TABLE delayer_migrations (component text, version int, PRIMARY KEY (component, version));
		INSERT INTO delayer_migrations VALUES ('c', 1); CREATE TABLE a (x int);`)}
	two := fstest.MapFS{"0001_a.sql": one["0001_a.sql"], "0002_b.sql": file(`
		INSERT INTO delayer_migrations VALUES ('c', 2); ALTER TABLE a ADD y int;`)}
	broken := fstest.MapFS{"0001_a.sql": two["0001_a.sql"], "0002_b.sql": two["0002_b.sql"], "0003_c.sql": file(`
		INSERT INTO delayer_migrations VALUES ('c', 3); ALTER TABLE nowhere ADD y int;`)}
	with := func(files fstest.MapFS) schema.Schema {
		return schema.Schema{Component: "c", Files: files, Hint: "run it", Err: errSchema}
	}

	require.ErrorIs(t, with(one).Check(t.Context(), pool), errSchema)
	require.NoError(t, with(one).Apply(t.Context(), pool))
	require.NoError(t, with(one).Check(t.Context(), pool))

	err := with(two).Check(t.Context(), pool)
	require.ErrorIs(t, err, errSchema)
	assert.EqualError(t, err, "c: the database is not migrated: its tables have version 1, this program needs 2 (run it)")
	_, err = pool.Exec(t.Context(), "SELECT y FROM a")
	require.ErrorIs(t, with(two).Explain(err), errSchema, "a column that a newer version adds")

	require.ErrorContains(t, with(broken).Apply(t.Context(), pool), "0003_c.sql")
	require.ErrorIs(t, with(two).Check(t.Context(), pool), errSchema, "all or nothing")
	require.NoError(t, with(two).Apply(t.Context(), pool))
	require.NoError(t, with(two).Apply(t.Context(), pool), "twice")
	require.NoError(t, with(one).Check(t.Context(), pool), "a newer version is taken")
}

// TestDocs_SQL: what docs/patterns.md says to type for a message that cannot be published does what
// it says.
func TestDocs_SQL(t *testing.T) {
	pool, _ := database(t)
	enqueue(t, pool, "nowhere", time.Hour, "m")
	var id int
	require.NoError(t, pool.QueryRow(t.Context(), "UPDATE delayer_outbox SET next_try = now() + interval '1 hour' RETURNING id").Scan(&id))

	var statements []string
	for _, b := range docs.Blocks(docs.Pages(t, "../../../..")["docs/patterns.md"]) {
		if b.Lang == "sql" {
			statements = regexp.MustCompile(`(?s)[A-Z]+ .*?;`).FindAllString(b.Text, -1)
		}
	}
	require.Len(t, statements, 4)
	for i, after := range []string{"next_try <= now()", "next_try = 'infinity'", "message->>'routing_key' = 'orders'", "true"} {
		statement := regexp.MustCompile(`id = 17\b`).ReplaceAllString(statements[i], "id = "+strconv.Itoa(id))
		require.NotEqual(t, statements[i], statement)
		done, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
		require.EqualValues(t, 1, done.RowsAffected(), statement)
		var left, changed int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE "+after+") FROM delayer_outbox").Scan(&left, &changed))
		require.Equal(t, left, changed, statement)
		require.Equal(t, i == 3, left == 0, "only the last one deletes")
	}
}
