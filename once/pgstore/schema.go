package pgstore

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/delayer-go/delayer/internal/lib/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the SQL files that [Migrate] applies, for use with other tools. Apply them in
// the order of their names, each in one transaction.
func Migrations() fs.FS { return schema.Files(migrations) }

// ErrSchema means that the table is missing or older than this program needs.
var ErrSchema = errors.New("the database is not migrated")

var tables = schema.Schema{
	Component: "once", Files: Migrations(), Err: ErrSchema,
	Hint: "call pgstore.Migrate, or apply once/pgstore/migrations by hand; search_path must lead there",
}

// Migrate creates the table in the first schema of search_path, or upgrades it, in one transaction.
// Programs may call it at every start, several at once.
func Migrate(ctx context.Context, db DB) error { return tables.Apply(ctx, db) }
