package satellites_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/lib/schema"
)

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
