package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/retry"
)

// concurrency is how many orders a worker handles at once.
const concurrency = 16

// config is what every role reads from the environment.
type config struct {
	database string         // DATABASE_URL
	delayer  backend.Config // DELAYER_URL, DELAYER_BACKEND, …
	queue    string         // NOTIFY_QUEUE
	policy   retry.Policy   // NOTIFY_POLICY
	service  string         // NOTIFY_SERVICE
	overdue  time.Duration  // NOTIFY_OVERDUE: longer than all attempts of an order take
}

func fromEnv() (c config, err error) {
	c.database, c.service = os.Getenv("DATABASE_URL"), os.Getenv("NOTIFY_SERVICE")
	c.queue = cmp.Or(os.Getenv("NOTIFY_QUEUE"), "notify")
	if c.delayer, err = backend.FromEnv(backend.Config{}, os.Environ()); err != nil {
		return c, err
	}
	if c.policy, err = retry.ParsePolicy(cmp.Or(os.Getenv("NOTIFY_POLICY"), "3s, 10s, 30s")); err != nil {
		return c, fmt.Errorf("NOTIFY_POLICY: %w", err)
	}
	if c.overdue, err = time.ParseDuration(cmp.Or(os.Getenv("NOTIFY_OVERDUE"), "10m")); err != nil {
		return c, fmt.Errorf("NOTIFY_OVERDUE: %w", err)
	}
	return c, nil
}

// pool connects to the database. A handler holds a connection while it runs.
func (c config) pool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(c.database)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	cfg.MaxConns = concurrency + 2
	return pgxpool.NewWithConfig(ctx, cfg)
}
