// Package pgstore keeps the marks of package once in PostgreSQL. A handler gets the transaction
// that also holds the mark: both commit, or neither.
//
// A duplicate that comes while the first is being handled waits for that transaction, on a
// connection of its own: give the pool a connection for each concurrent handler. Every ten seconds
// [Store.Do] also removes up to 5,000 marks older than [Config].Age, or as many at each call while
// there are more.
package pgstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/schema"
	"github.com/delayer-go/delayer/once"
)

// A DB is a *pgxpool.Pool. [Migrate] also takes a *pgx.Conn or a pgx.Tx.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Config says whose marks a [Store] keeps, and for how long.
type Config struct {
	// Scope is the handler's name: UTF-8 without NUL, at most 255 bytes. Two handlers that get the
	// same message, as from two queues of one exchange, each handle it once. Required.
	Scope string

	// Age is how long a mark is kept. Any duplicate must arrive within it: count the time that a
	// message may wait in a queue, or parked. Default: 30 days.
	Age time.Duration

	// Logger receives a warning when old marks cannot be removed. Default: slog.Default().
	Logger *slog.Logger
}

// A Store keeps marks in the table delayer_once. It is safe for concurrent use.
type Store struct {
	db    DB
	cfg   Config
	swept atomic.Int64 // when old marks were last removed, in nanoseconds since the Unix epoch
}

var _ once.Store[pgx.Tx] = (*Store)(nil)

// New returns a store for one handler. It does not close db. An error is [delayer.ErrConfig].
func New(db DB, cfg Config) (*Store, error) {
	switch {
	case cfg.Scope == "":
		return nil, invalid("Config.Scope", "it is empty", "give the handler's name")
	case len(cfg.Scope) > maxLength || !utf8.ValidString(cfg.Scope) || strings.ContainsRune(cfg.Scope, 0):
		return nil, invalid("Config.Scope", "it is not UTF-8 without NUL of at most 255 bytes", "give the handler's name")
	case cfg.Age < 0:
		return nil, invalid("Config.Age", "it is negative", "leave it zero for its default")
	}
	cfg.Age = cmp.Or(cfg.Age, 30*24*time.Hour)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Store{db: db, cfg: cfg}, nil
}

func invalid(object, cause, hint string) error {
	return &delayer.Error{Op: "open", Object: "pgstore " + object, Kind: delayer.ErrConfig, Cause: errors.New(cause), Hint: hint}
}

// Check returns an error that matches [ErrSchema] if the table is missing or older than this
// program needs. Call it when the program starts: otherwise each message fails with it.
func (s *Store) Check(ctx context.Context) error { return tables.Check(ctx, s.db) }

// mark waits for another transaction that marks the same id, and inserts nothing if that commits.
const mark = `INSERT INTO delayer_once (scope, id) VALUES ($1, $2) ON CONFLICT DO NOTHING`

// maxLength bounds what goes into the index as it is. PostgreSQL refuses an entry of more than
// about 2,700 bytes.
const maxLength = 255

// key returns what stands for an id. A longer one than AMQP's MessageId can be, as from a header,
// is hashed.
func key(id string) []byte {
	if len(id) <= maxLength {
		return []byte(id)
	}
	sum := sha256.Sum256([]byte(id))
	return append([]byte("sha256 "), sum[:]...)
}

// Do implements [once.Store]. f must neither commit nor roll back the transaction. Errors are those
// of f, the database's, and ErrSchema.
func (s *Store) Do(ctx context.Context, id string, f func(context.Context, pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, mark, s.cfg.Scope, key(id))
		if err != nil {
			return fmt.Errorf("once: %w", tables.Explain(err))
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return f(ctx, tx)
	})
	last, now := s.swept.Load(), time.Now().UnixNano()
	if now-last >= int64(sweepEvery) && ctx.Err() == nil && s.swept.CompareAndSwap(last, now) {
		tag, failed := s.db.Exec(ctx, sweep, s.cfg.Scope, s.cfg.Age.Microseconds(), sweepLimit)
		if failed != nil { // which is no failure of this message
			s.cfg.Logger.Warn("once: old marks cannot be removed", "error", tables.Explain(failed))
		}
		if tag.RowsAffected() == sweepLimit {
			s.swept.Store(0) // there are more
		}
	}
	return err
}

// A sweep removes a limited number of marks, so that no handler waits for long.
const (
	sweepEvery = 10 * time.Second
	sweepLimit = 5000
)

const sweep = `
DELETE FROM delayer_once WHERE (scope, id) IN (
	SELECT scope, id FROM delayer_once
	WHERE scope = $1 AND marked < now() - $2::bigint * interval '1 microsecond'
	ORDER BY marked LIMIT $3 FOR UPDATE SKIP LOCKED)`

//go:embed migrations/*.sql
var migrations embed.FS

// ErrSchema means that the table is missing or older than this program needs.
var ErrSchema = errors.New("the database is not migrated")

var tables = schema.Schema{
	Component: "once", Files: schema.Files(migrations), Err: ErrSchema,
	Hint: "call pgstore.Migrate, or apply once/pgstore/migrations by hand; search_path must lead there",
}

// Migrate creates the table in the first schema of search_path, or upgrades it, in one transaction.
// Programs may call it at every start, several at once. Errors are the
// database's.
func Migrate(ctx context.Context, db DB) error { return tables.Apply(ctx, db) }
