package notify

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// watch makes the database note each time that an order is set to S.
const watch = `
CREATE TABLE sent_log (id bigint NOT NULL);
CREATE FUNCTION log_sent() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO sent_log VALUES (NEW.id); RETURN NULL; END $$;
CREATE TRIGGER log_sent AFTER UPDATE OF state ON orders FOR EACH ROW WHEN (NEW.state = 'S') EXECUTE FUNCTION log_sent()`

// A pair is a row of two columns.
type pair[A, B any] struct {
	Key   A
	Value B
}

func readMap[A comparable, B any](ctx context.Context, pool *pgxpool.Pool, query string) (map[A]B, error) {
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pair[A, B]])
	m := make(map[A]B, len(list))
	for _, p := range list {
		m[p.Key] = p.Value
	}
	return m, err
}

// States counts the orders in each state.
func States(ctx context.Context, pool *pgxpool.Pool) (map[string]int, error) {
	return readMap[string, int](ctx, pool, "SELECT state, count(*) FROM orders GROUP BY state")
}

func readSeen(ctx context.Context, pool *pgxpool.Pool) (s Seen, err error) {
	if s.States, err = readMap[int64, string](ctx, pool, "SELECT id, state FROM orders"); err != nil {
		return s, err
	}
	s.SentOften, err = readMap[int64, int](ctx, pool, "SELECT id, count(*) FROM sent_log GROUP BY id")
	return s, err
}
