// Command notify tells another service of each order, and tries again with growing delays when that
// fails: the workflow of docs/patterns.md as a program to copy from.
//
//	notify setup     create the tables and the queue
//	notify save 12   save 12 orders in state I, each with its message, in one transaction each
//	notify relay     publish the messages of orders that were committed
//	notify worker    tell the service: S on success, F after the last attempt
//	notify sweep     send the messages of overdue orders again; run it every minute
//
// DATABASE_URL is the PostgreSQL, DELAYER_URL the RabbitMQ. DELAYER_BACKEND and the other variables
// of package backend select how messages wait. NOTIFY_SERVICE is the address of the other service.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/retry"
)

var roles = map[string]func(ctx context.Context, c config, args []string) error{
	"setup": setup, "save": save, "relay": relay, "worker": work, "sweep": sweep,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "notify:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || roles[args[0]] == nil {
		return fmt.Errorf("unknown role %q (want setup, save N, relay, worker or sweep)", args)
	}
	c, err := fromEnv()
	if err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	cfg.MaxConns = concurrency + 2 // a handler holds one while it runs
	if c.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	defer c.pool.Close()
	return roles[args[0]](ctx, c, args[1:])
}

// concurrency is how many orders a worker handles at once.
const concurrency = 16

// config is what every role takes from the environment.
type config struct {
	pool    *pgxpool.Pool  // DATABASE_URL
	delayer backend.Config // DELAYER_URL, DELAYER_BACKEND, …
	queue   string         // NOTIFY_QUEUE
	policy  retry.Policy   // NOTIFY_WAITS
	service string         // NOTIFY_SERVICE
	overdue time.Duration  // NOTIFY_OVERDUE: longer than all attempts of an order take
}

func fromEnv() (c config, err error) {
	c.service = os.Getenv("NOTIFY_SERVICE")
	c.queue = cmp.Or(os.Getenv("NOTIFY_QUEUE"), "notify")
	if c.delayer, err = backend.FromEnv(backend.Config{}, os.Environ()); err != nil {
		return c, err
	}
	for text := range strings.SplitSeq(cmp.Or(os.Getenv("NOTIFY_WAITS"), "3s,10s,30s"), ",") {
		wait, err := time.ParseDuration(text)
		if err != nil {
			return c, fmt.Errorf("NOTIFY_WAITS: %w", err)
		}
		c.policy.Intervals = append(c.policy.Intervals, wait)
	}
	if c.overdue, err = time.ParseDuration(cmp.Or(os.Getenv("NOTIFY_OVERDUE"), "10m")); err != nil {
		return c, fmt.Errorf("NOTIFY_OVERDUE: %w", err)
	}
	return c, nil
}
