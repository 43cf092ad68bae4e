package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/delayer-go/delayer/internal/lab/postgres"
)

// ownDatabase creates a database on a server that may be the user's, and returns how to remove it.
func ownDatabase(ctx context.Context, s *postgres.Server) (address string, drop func() error, err error) {
	name := "delayer_demo_" + strings.ToLower(rand.Text()[:8])
	if err := do(ctx, s, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	drop = func() error {
		return do(context.WithoutCancel(ctx), s, "DROP DATABASE "+name+" WITH (FORCE)")
	}
	if address, err = s.Database(name); err != nil {
		return "", nil, errors.Join(err, drop())
	}
	return address, drop, nil
}

func do(ctx context.Context, s *postgres.Server, statement string) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
