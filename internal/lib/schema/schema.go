// Package schema applies and checks the PostgreSQL tables of the packages that have some. Each
// component has numbered SQL files; each file notes its number in the table delayer_migrations, so
// that it makes no difference whether a function applied it or a person did.
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Schema is the tables of one component.
type Schema struct {
	Component string // as in delayer_migrations
	Files     fs.FS  // 0001_name.sql, 0002_name.sql, …
	Hint      string // what to run
	Err       error  // in the chain where the tables are missing or of an older version
}

// Files returns the folder "migrations" of what a component embeds.
func Files(embedded embed.FS) fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name is fixed and valid
	}
	return files
}

// Beginner is a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Querier is a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Apply brings the tables to the newest version, in one transaction. Several may call it at once.
func (s Schema) Apply(ctx context.Context, conn Beginner) error {
	err := begin(ctx, conn, func(tx pgx.Tx) error {
		// Any number will do; all components share it, because they share delayer_migrations.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7263541)"); err != nil {
			return err
		}
		have, err := version(ctx, tx, s.Component)
		if err != nil {
			return err
		}
		names := s.names()
		for _, name := range names[min(have, len(names)):] {
			text, err := fs.ReadFile(s.Files, name)
			if err == nil {
				_, err = tx.Exec(ctx, string(text))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: migrate: %w", s.Component, err)
	}
	return nil
}

// begin runs f in a transaction that sees what others have committed while it waited for a lock,
// also where the database's default isolation is stricter. A pgx.Tx keeps its own.
func begin(ctx context.Context, conn Beginner, f func(pgx.Tx) error) error {
	type beginner interface {
		BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	}
	if conn, ok := conn.(beginner); ok {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
	}
	return pgx.BeginFunc(ctx, conn, f)
}

// names are those of the files in their order: the first brings the tables to version 1.
func (s Schema) names() []string {
	names, _ := fs.Glob(s.Files, "*.sql") // fails for no pattern such as this
	return names
}

// version is 0 where nothing was applied.
func version(ctx context.Context, q Querier, component string) (int, error) {
	var there bool
	if err := q.QueryRow(ctx, "SELECT to_regclass('delayer_migrations') IS NOT NULL").Scan(&there); err != nil || !there {
		return 0, err
	}
	var have int
	err := q.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM delayer_migrations WHERE component = $1", component).Scan(&have)
	return have, err
}

// Check returns an error that matches s.Err unless the tables have at least the newest version
// known here. A newer one is taken: programs are replaced after the database was migrated.
func (s Schema) Check(ctx context.Context, q Querier) error {
	have, err := version(ctx, q, s.Component)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Component, err)
	}
	switch want := len(s.names()); {
	case have == 0:
		return fmt.Errorf("%s: %w: its tables are not there (%s)", s.Component, s.Err, s.Hint)
	case have < want:
		return fmt.Errorf("%s: %w: its tables have version %d, this program needs %d (%s)", s.Component, s.Err, have, want, s.Hint)
	}
	return nil
}

// SQLSTATE codes of a table, and of a column, that is not there.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
)

// Explain adds what to run to an error of a statement that missed a table or a column.
func (s Schema) Explain(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == undefinedTable || refused.Code == undefinedColumn) {
		return fmt.Errorf("%w: %w (%s)", s.Err, err, s.Hint)
	}
	return err
}
