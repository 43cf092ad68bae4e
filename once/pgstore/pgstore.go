// Package pgstore is a store of package once in PostgreSQL. A handler gets the transaction that also
// holds the mark: what it does there and the mark commit together, or neither does.
//
//	err := pgstore.Migrate(ctx, pool)
//	store, err := pgstore.New(pool, "billing", pgstore.Options{})
//	handle := once.Handler(store, func(ctx context.Context, tx pgx.Tx, d amqp091.Delivery) error { … })
//
// A duplicate that comes while the first is being handled waits for its transaction, on a connection of
// its own: the pool needs as many as there are concurrent handlers. Marks older than Options.Age are
// removed, a few at a time, by the calls that come by.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/once"
)

// DB is a *pgxpool.Pool.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Options of a [Store]. A field that is zero takes its default.
type Options struct {
	// Age is how long a mark is kept: longer than any duplicate may take to come, with the time that a
	// message may wait in a queue or put aside. Default: 30 days.
	Age time.Duration

	// Logger is told when old marks cannot be removed. Default: slog.Default().
	Logger *slog.Logger
}

// A Store keeps marks in the table delayer_once. Its methods are safe for concurrent use.
type Store struct {
	db    DB
	scope string
	o     Options
	swept atomic.Int64 // when old marks were last removed, in nanoseconds since the Unix epoch
}

var _ once.Store[pgx.Tx] = (*Store)(nil)

// New returns a store for one handler. The scope is the handler's name: two handlers that get the same
// message, such as from two queues of one exchange, each handle it once. An error is [delayer.ErrConfig].
func New(db DB, scope string, o Options) (*Store, error) {
	switch {
	case scope == "":
		return nil, invalid("scope", "it is empty", "give the handler's name")
	case o.Age < 0:
		return nil, invalid("Options.Age", "it is negative", "leave it zero for its default")
	}
	if o.Age == 0 {
		o.Age = 30 * 24 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Store{db: db, scope: scope, o: o}, nil
}

func invalid(object, cause, hint string) error {
	return &delayer.Error{Op: "open", Object: "pgstore " + object, Kind: delayer.ErrConfig, Cause: errors.New(cause), Hint: hint}
}

// Check returns an error that matches [ErrSchema] where the table is missing or of an older version.
func (s *Store) Check(ctx context.Context) error { return tables.Check(ctx, s.db) }

// mark waits for another transaction that marks the same id. If that one commits, nothing is inserted.
const mark = `INSERT INTO delayer_once (scope, id) VALUES ($1, $2) ON CONFLICT DO NOTHING`

// Do implements [once.Store]. f must neither commit nor roll back the transaction.
func (s *Store) Do(ctx context.Context, id string, f func(context.Context, pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, mark, s.scope, []byte(id))
		if err != nil {
			return fmt.Errorf("once: %w", tables.Explain(err))
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return f(ctx, tx)
	})
	s.sweepSometimes(ctx)
	return err
}

// A sweep removes so many marks at most, so that no handler waits for long.
const (
	sweepEvery = 10 * time.Second
	sweepLimit = 5000
)

// sweepSometimes removes old marks if nobody here has done so for a while. The message is handled whether
// that succeeds or not.
func (s *Store) sweepSometimes(ctx context.Context) {
	last, now := s.swept.Load(), time.Now().UnixNano()
	if now-last < int64(sweepEvery) || !s.swept.CompareAndSwap(last, now) || ctx.Err() != nil {
		return
	}
	if _, err := s.Sweep(ctx); err != nil {
		s.o.Logger.Warn("once: old marks cannot be removed", "error", err)
	}
}

const sweep = `
DELETE FROM delayer_once WHERE (scope, id) IN (
	SELECT scope, id FROM delayer_once
	WHERE scope = $1 AND marked < now() - $2::bigint * interval '1 microsecond'
	ORDER BY marked LIMIT $3 FOR UPDATE SKIP LOCKED)`

// Sweep removes marks of this scope that are older than Options.Age, up to 5,000, and returns how many.
// Do calls it now and then; a program that handles more than 500 messages a second calls it as well.
func (s *Store) Sweep(ctx context.Context) (int64, error) {
	tag, err := s.db.Exec(ctx, sweep, s.scope, s.o.Age.Microseconds(), sweepLimit)
	if err != nil {
		return 0, fmt.Errorf("once: sweep: %w", tables.Explain(err))
	}
	return tag.RowsAffected(), nil
}
