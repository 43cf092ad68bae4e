package outbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// listen wakes workers when a message was enqueued. While it cannot, they poll.
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
		r.cfg.Logger.Warn("outbox: not listening, only polling", "error", err, "poll", r.cfg.Poll)
		sleep(ctx, pause(failures, time.Minute), nil)
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
	r.cursor.rewind() // for what was enqueued before LISTEN
	for {
		r.nudge()
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		r.cursor.notified(n.Payload)
	}
}
