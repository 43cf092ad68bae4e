package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer"
)

// Config sets how a [Relay] works. A zero field has its default.
type Config struct {
	// Batch is how many messages are published concurrently and deleted together. All bodies of a
	// batch are in memory. Default: 500.
	Batch int

	// Workers is how many batches are published at once, each on a connection of its own. Default:
	// 2.
	Workers int

	// Poll is how often the table is read from its beginning. It finds what no notification tells
	// of: the rows of a relay that was killed, and all rows behind a connection pooler that does
	// not support LISTEN. If this takes long, it is done less often. Default: 1s.
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
	wake    chan struct{} // there may be something to do
	cursor  cursor

	slow     slow           // destinations that do not confirm
	awaiting sync.WaitGroup // goroutines that wait for confirms that batches did not wait for
}

// NewRelay returns a relay between a database and a Delayer. It closes neither. An error is
// [delayer.ErrConfig].
func NewRelay(pool *pgxpool.Pool, d delayer.Delayer, cfg Config) (*Relay, error) {
	if cfg.Batch < 0 || cfg.Workers < 0 || cfg.Poll < 0 || cfg.Timeout < 0 || cfg.MaxPause < 0 {
		return nil, &delayer.Error{Op: "open", Object: "outbox.Config", Kind: delayer.ErrConfig,
			Cause: errors.New("a value is negative"), Hint: "leave it zero for its default"}
	}
	cfg = cfg.withDefaults()
	return &Relay{pool: pool, delayer: d, limits: d.Limits(), cfg: cfg, wake: make(chan struct{}, 1), slow: slow{most: cfg.MaxPause}}, nil
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

// maxTroublePause is the longest pause while the database or the broker is away.
const maxTroublePause = 8 * time.Second

// work relays one batch after the other. After a full one it wakes another worker: there is more.
func (r *Relay) work(ctx context.Context) error {
	trouble := 0
	for ctx.Err() == nil {
		found, next, err := r.relay(ctx)
		switch {
		case errors.Is(err, delayer.ErrClosed):
			return fmt.Errorf("outbox: relay: %w", err)
		case err != nil && ctx.Err() == nil:
			trouble++
			p := pause(trouble, maxTroublePause)
			r.cfg.Logger.Warn("outbox: nothing can be relayed", "error", err, "pause", p)
			sleep(ctx, p, nil)
		case found == r.cfg.Batch:
			trouble = 0
			r.nudge()
		default:
			trouble = 0
			sleep(ctx, min(r.cfg.Poll, next), r.wake)
		}
	}
	return nil
}

// nudge wakes one worker.
func (r *Relay) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// sleep ends with ctx, or early when woken.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}
