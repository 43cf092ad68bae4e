package outbox

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/delayer-go/delayer/internal/lib/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the SQL files that [Migrate] applies, for use with other tools. Apply them in
// the order of their names, each in one transaction.
func Migrations() fs.FS { return schema.Files(migrations) }

// ErrSchema means that the outbox's tables are missing or older than this program needs.
var ErrSchema = errors.New("the database is not migrated")

var tables = schema.Schema{
	Component: "outbox", Files: Migrations(), Err: ErrSchema,
	Hint: "call outbox.Migrate, run `delayer outbox migrate`, or apply outbox/migrations by hand; search_path must lead there",
}

// A Beginner is a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Migrate creates the outbox's tables in the first schema of search_path, or upgrades them, in one
// transaction. Programs may call it at every start, several at once.
func Migrate(ctx context.Context, db Beginner) error { return tables.Apply(ctx, db) }
