package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Config sets how a [Relay] works. A zero field has its default.
type Config struct {
	// Batch is how many messages are published concurrently and deleted together. All bodies of a
	// batch are in memory. Default: 500.
	Batch int

	// Workers is how many batches are published at once, each on a connection of its own. Default:
	// 2.
	Workers int

	// Poll is how often the table is read without a notification. It finds the rows of a relay that
	// was killed, and all rows behind a connection pooler that does not support LISTEN. Default:
	// 1s.
	Poll time.Duration

	// Timeout is how long one Publish may take. The transaction stays open meanwhile, but once the
	// broker has confirmed some messages of the batch, and no more for a second, it is committed:
	// the others are awaited without it, at most as many as Batch. Default: 30s.
	Timeout time.Duration

	// MaxPause is the longest pause between two tries of a message that cannot be published. The
	// first pause is a second; each further one is twice as long. Default: 5m.
	MaxPause time.Duration

	// Logger receives failures. Default: slog.Default().
	Logger *slog.Logger
}

// A Relay publishes what [Enqueue] wrote.
type Relay struct {
	pool    *pgxpool.Pool
	delayer delayer.Delayer
	limits  delayer.Limits
	cfg     Config
	wake    pace.Signal // there may be something to do

	slow        pace.Pauses[message.Destination] // destinations that do not confirm
	awaiting    sync.WaitGroup                   // goroutines that wait for confirms that batches did not wait for
	unconfirmed atomic.Int64                     // the messages that these wait for
}

// NewRelay returns a relay between a database and a Delayer. It closes neither. An error is
// [delayer.ErrConfig].
func NewRelay(pool *pgxpool.Pool, d delayer.Delayer, cfg Config) (*Relay, error) {
	if cfg.Batch < 0 || cfg.Workers < 0 || cfg.Poll < 0 || cfg.Timeout < 0 || cfg.MaxPause < 0 {
		return nil, &delayer.Error{Op: "open", Object: "outbox.Config", Kind: delayer.ErrConfig,
			Cause: errors.New("a value is negative"), Hint: "leave it zero for its default"}
	}
	cfg = cfg.withDefaults()
	return &Relay{
		pool: pool, delayer: d, limits: d.Limits(), cfg: cfg, wake: pace.NewSignal(),
		slow: pace.Pauses[message.Destination]{First: time.Second, Longest: cfg.MaxPause},
	}, nil
}

func (c Config) withDefaults() Config {
	c.Batch = cmp.Or(c.Batch, 500)
	c.Workers = cmp.Or(c.Workers, 2)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.MaxPause = cmp.Or(c.MaxPause, 5*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Run publishes until ctx ends, waits up to five seconds for the last confirms, and returns nil. It
// returns an error if, when it starts, the database cannot be reached or is not migrated
// ([ErrSchema]), or if the Delayer was closed ([delayer.ErrClosed]). Later failures of the database
// or the broker are logged, and Run tries again after a growing pause.
//
// Any number of relays may run at once, in this process and others.
func (r *Relay) Run(ctx context.Context) error {
	if err := tables.Check(ctx, r.pool); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { r.listen(ctx); return nil })
	for range r.cfg.Workers {
		g.Go(func() error { return r.work(ctx) })
	}
	err := g.Wait()
	r.awaiting.Wait()
	return err
}

// work relays one batch after the other. After a full one it wakes another worker: there is more.
func (r *Relay) work(ctx context.Context) error {
	trouble := pace.Backoff{First: time.Second, Longest: 8 * time.Second}
	for ctx.Err() == nil {
		found, next, err := r.relay(ctx)
		switch {
		case errors.Is(err, delayer.ErrClosed):
			return fmt.Errorf("outbox: relay: %w", err)
		case err != nil && ctx.Err() == nil:
			pause := trouble.Failed()
			r.cfg.Logger.Warn("outbox: nothing can be relayed", "error", err, "pause", pause)
			_ = pace.Sleep(ctx, pause)
			continue
		case found == r.cfg.Batch:
			r.wake.Set()
		default:
			timer := time.NewTimer(min(r.cfg.Poll, next))
			select {
			case <-ctx.Done():
			case <-timer.C:
			case <-r.wake:
			}
			timer.Stop()
		}
		trouble.Reset()
	}
	return nil
}

// listen wakes workers when a message was enqueued. While it cannot, they poll.
func (r *Relay) listen(ctx context.Context) {
	trouble := pace.Backoff{First: time.Second, Longest: time.Minute}
	for {
		began := time.Now()
		err := r.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > trouble.Longest {
			trouble.Reset()
		}
		r.cfg.Logger.Warn("outbox: not listening, only polling", "error", err, "poll", r.cfg.Poll)
		_ = pace.Sleep(ctx, trouble.Failed())
	}
}

// listenOnce listens on a connection that it takes out of the pool for good, until that is lost.
func (r *Relay) listenOnce(ctx context.Context) error {
	acquired, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := acquired.Hijack()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // the connection is not used again
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	for {
		r.wake.Set() // first for what was enqueued before LISTEN
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
