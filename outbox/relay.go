package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer"
)

// Options of a [Relay]. A field that is zero takes its default.
type Options struct {
	// Batch is how many messages are published beside each other, and deleted together. Default: 500. All
	// bodies of a batch are in memory.
	Batch int

	// Workers is how many batches are under way at once, each on a connection of its own. Default: 2.
	Workers int

	// Poll is how often the table is read where no notification came: behind a connection pooler that
	// has no LISTEN, and for messages whose next try has come. Default: 1s.
	Poll time.Duration

	// Timeout is how long one Publish may take. Its transaction is open for as long. Default: 30s.
	Timeout time.Duration

	// MaxPause is the longest pause between two tries of a message that cannot be published. The first is
	// a second; each further one is twice as long. Default: 5m.
	MaxPause time.Duration

	// Logger receives what goes wrong. Default: slog.Default().
	Logger *slog.Logger
}

// A Relay publishes what [Enqueue] wrote.
type Relay struct {
	pool    *pgxpool.Pool
	delayer delayer.Delayer
	limits  delayer.Limits
	o       Options
	wake    chan struct{} // there may be something to do
}

// NewRelay returns a relay between a database and a Delayer. It closes neither. An error is
// [delayer.ErrConfig].
func NewRelay(pool *pgxpool.Pool, d delayer.Delayer, o Options) (*Relay, error) {
	if o.Batch < 0 || o.Workers < 0 || o.Poll < 0 || o.Timeout < 0 || o.MaxPause < 0 {
		return nil, &delayer.Error{Op: "open", Object: "outbox.Options", Kind: delayer.ErrConfig,
			Cause: errors.New("a value is negative"), Hint: "leave it zero for its default"}
	}
	o = o.withDefaults()
	return &Relay{pool: pool, delayer: d, limits: d.Limits(), o: o, wake: make(chan struct{}, 1)}, nil
}

func (o Options) withDefaults() Options {
	orInt(&o.Batch, 500)
	orInt(&o.Workers, 2)
	orInt(&o.Poll, time.Second)
	orInt(&o.Timeout, 30*time.Second)
	orInt(&o.MaxPause, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func orInt[T int | time.Duration](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}

// Run publishes until ctx ends, and then returns nil: what is under way has [stopTimeout] to be confirmed.
// It returns an error if the database cannot be reached or is not migrated when it starts, or if the
// Delayer was closed. Later failures of either side are logged, and tried again after a pause that grows.
//
// Any number of relays may run beside each other, in this process and others. Each message is with one of
// them at a time.
func (r *Relay) Run(ctx context.Context) error {
	if err := tables.Check(ctx, r.pool); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { r.listen(ctx); return nil })
	for range r.o.Workers {
		g.Go(func() error { return r.work(ctx) })
	}
	return g.Wait()
}

// maxTroublePause bounds the pause while the database or the broker is away.
const maxTroublePause = 8 * time.Second

// work relays one batch after the other. A full one says that there is more: others may help.
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
			r.o.Logger.Warn("outbox: nothing can be relayed", "error", err, "pause", p)
			sleep(ctx, p, nil)
		case found == r.o.Batch:
			trouble = 0
			r.nudge()
		default:
			trouble = 0
			sleep(ctx, min(r.o.Poll, next), r.wake)
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
