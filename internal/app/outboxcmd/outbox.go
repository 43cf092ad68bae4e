// Package outboxcmd publishes what applications committed to PostgreSQL: delayer outbox.
package outboxcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/service"
	"github.com/delayer-go/delayer/outbox"
)

// Command is `delayer outbox`.
type Command struct {
	Run     runCmd     `cmd:"" help:"Publish what applications enqueue, until it is told to stop. Any number may run."`
	Status  statusCmd  `cmd:"" help:"Show how many messages there are, and those that cannot be published."`
	Migrate migrateCmd `cmd:"" help:"Create the outbox's table, or bring it to the newest version."`
}

// postgresFlags say which database.
type postgresFlags struct {
	Postgres string `placeholder:"URL" help:"postgres://user@host:5432/database. Others on this machine can see it: a password is better in DELAYER_POSTGRES, or in PGPASSWORD or PGPASSFILE."`
}

// open connects when a connection is first used. The parser's error quotes its input, so it is not
// shown.
func (f *postgresFlags) open(ctx context.Context) (*pgxpool.Pool, error) {
	address := cmp.Or(f.Postgres, os.Getenv("DELAYER_POSTGRES"))
	if address == "" {
		return nil, errors.New("no database is configured (set DELAYER_POSTGRES or give --postgres)")
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.New("the database's URL cannot be read (it looks like postgres://user:password@host:5432/database, with special characters of the password percent-encoded)")
	}
	return pgxpool.NewWithConfig(ctx, config)
}

type runCmd struct {
	postgresFlags
	service.Flags
	flags.Broker
	Batch   int           `default:"500" help:"How many messages are published beside each other (default ${default}). Their bodies are in memory."`
	Workers int           `default:"2" help:"How many batches are under way at once, each on a connection to the database (default ${default})."`
	Poll    time.Duration `default:"1s" help:"How often the table is read without a notification: it finds what none tells of (default ${default})."`
}

// Validate makes a value that cannot be right a usage error.
func (c *runCmd) Validate() error {
	switch {
	case c.Batch <= 0:
		return fmt.Errorf("--batch: %d must be positive", c.Batch)
	case c.Workers <= 0:
		return fmt.Errorf("--workers: %d must be positive", c.Workers)
	case c.Poll <= 0:
		return fmt.Errorf("--poll: %v must be positive", c.Poll)
	}
	return c.Flags.Validate()
}

// Run relays until SIGTERM or Ctrl-C. To be told to stop is how it ends in good order: the exit
// status is 0.
func (c *runCmd) Run(ctx context.Context, s cli.Streams) error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	pool, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	running, err := c.Start(ctx, s.Err)
	if err != nil {
		return err
	}
	defer running.Close() // before the pool waits for what asks it
	running.Configure(&cfg)
	running.Register(func() prometheus.Collector {
		return service.NewOutboxGauges(ctx, running.Log, func(ctx context.Context) (ready, waiting, failed int64, oldest time.Duration, err error) {
			lag, err := outbox.ReadLag(ctx, pool)
			return lag.Ready, lag.Waiting, lag.Failed, lag.Oldest, err
		})
	})
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // what is not confirmed is still in the outbox
	r, err := outbox.NewRelay(pool, d, outbox.Config{Batch: c.Batch, Workers: c.Workers, Poll: c.Poll, Logger: running.Log})
	if err != nil {
		return err
	}
	running.Log.Info("outbox relay starts")
	if err := r.Run(ctx); err != nil {
		return err
	}
	running.Log.Info("outbox relay has stopped")
	return nil
}

type migrateCmd struct{ postgresFlags }

// Run migrates.
func (c *migrateCmd) Run(ctx context.Context, s cli.Streams) error {
	pool, err := c.open(ctx)
	if err == nil {
		defer pool.Close()
		err = outbox.Migrate(ctx, pool)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, "The outbox's table has the newest version.")
	return err
}

type statusCmd struct {
	postgresFlags
	cli.Format
	Limit int `default:"20" help:"How many of the messages that cannot be published are shown (default ${default})."`
}

// Run prints the lag and the failures.
func (c *statusCmd) Run(ctx context.Context, s cli.Streams) error {
	pool, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	lag, err := outbox.ReadLag(ctx, pool)
	if err != nil {
		return err
	}
	failed, err := outbox.Failures(ctx, pool, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON() {
		failures := []map[string]any{}
		for _, f := range failed {
			one := map[string]any{
				"row": f.ID, "exchange": f.Exchange, "routing_key": f.Key, "message_id": f.Message.MessageId,
				"tries": f.Attempts, "error": f.Err,
			}
			if !f.NextTry.IsZero() { // it is not held
				one["next_try"] = f.NextTry.UTC()
			}
			failures = append(failures, one)
		}
		return cli.WriteJSON(s.Out, map[string]any{
			"ready": lag.Ready, "oldest_seconds": lag.Oldest.Seconds(), "waiting": lag.Waiting, "failed": lag.Failed, "failures": failures,
		})
	}
	fmt.Fprintf(s.Out, "%d ready, the oldest for %v; %d waiting until their delay fits, or held; %d failed.\n",
		lag.Ready, lag.Oldest.Round(time.Millisecond), lag.Waiting, lag.Failed)
	if len(failed) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	t := cli.NewTable("ROW", "DESTINATION", "MESSAGE ID", "TRIES", "NEXT TRY", "ERROR")
	for _, f := range failed {
		destination := "exchange " + cli.Shown(f.Exchange) + " " + cli.Shown(f.Key)
		if f.Exchange == "" {
			destination = "queue " + cli.Shown(f.Key)
		}
		next := "" // of a row that is held
		if !f.NextTry.IsZero() {
			next = f.NextTry.UTC().Format(time.RFC3339)
		}
		t.Add(strconv.FormatInt(f.ID, 10), destination, cli.OrDash(f.Message.MessageId), strconv.Itoa(f.Attempts),
			cli.OrDash(next), cli.Plain(f.Err, ""))
	}
	return t.Write(s.Out)
}
