package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// listen wakes workers when something was enqueued. While it cannot, they poll.
func (r *Relay) listen(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := r.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			failures = 1
		}
		r.o.Logger.Warn("outbox: not listening, only polling", "error", err, "poll", r.o.Poll)
		sleep(ctx, pause(failures, time.Minute), nil)
	}
}

// listenOnce listens on a connection taken out of the pool, whose others are for the workers.
func (r *Relay) listenOnce(ctx context.Context) error {
	acquired, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := acquired.Hijack()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it is given up anyway
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	for {
		r.nudge() // also for what came before we listened
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
