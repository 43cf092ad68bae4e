package outbox

import (
	"context"
	"embed"
	"io/fs"

	"github.com/delayer-go/delayer/internal/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations holds the SQL files that [Migrate] applies, for other tools or by hand: in the order of their
// names, each in one transaction.
func Migrations() fs.FS { return schema.Files(migrations) }

// ErrSchema means that the outbox's tables are missing or of an older version.
var ErrSchema = schema.Err

var tables = schema.Schema{
	Component: "outbox", Files: Migrations(),
	Hint: "call outbox.Migrate, run `delayer outbox migrate`, or apply outbox/migrations by hand; search_path must lead there",
}

// Migrate creates the outbox's tables in the first schema of search_path, or brings them to the newest
// version. conn is a *pgx.Conn, a *pgxpool.Pool or a pgx.Tx. It may be called at every start, by several at
// once.
func Migrate(ctx context.Context, conn schema.Beginner) error { return tables.Apply(ctx, conn) }
