package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// stopTimeout is how long a relay that stops waits for the confirms of its batch.
const stopTimeout = 5 * time.Second

// settleTimeout bounds the statements after publishing. They run even if the relay is told to stop.
const settleTimeout = 10 * time.Second

const (
	// now() is the start of this transaction; unlike clock_timestamp(), it can use an index. What
	// is left of a delay is computed by the clock at this moment, before Publish, so that no
	// message is early.
	claim = `
SELECT id, attempts, message, body,
	CASE WHEN isfinite(due) THEN ceil(extract(epoch FROM due - clock_timestamp()) * 1000000)::bigint END
FROM delayer_outbox WHERE next_try <= now()
ORDER BY next_try, id LIMIT $1 FOR UPDATE SKIP LOCKED`

	remove = `DELETE FROM delayer_outbox WHERE id = ANY($1)`

	explain = `UPDATE delayer_outbox SET error = $2 WHERE id = $1 AND error IS NOT NULL`

	// A row without an error waits until its delay fits. The largest count of attempts stays as it
	// is.
	postpone = `
UPDATE delayer_outbox o SET attempts = o.attempts + (f.tried AND o.attempts < 2147483647)::integer, error = f.error,
	next_try = clock_timestamp() + f.pause * interval '1 microsecond'
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::boolean[]) AS f (id, error, pause, tried) WHERE o.id = f.id`

	// Rows that are ready belong to another relay already. A row whose next try is infinity is
	// held.
	nextTry = `
SELECT ceil(extract(epoch FROM min(next_try) - clock_timestamp()) * 1000000)::bigint
FROM delayer_outbox WHERE next_try > now() AND next_try < 'infinity'`

	// A relay whose machine is gone must not hold its rows until TCP notices. One that waits for
	// the broker must not lose them to a shorter setting of the database.
	idleLimit = `SELECT set_config('idle_in_transaction_session_timeout', $1, true)`
)

type item struct {
	row
	left   time.Duration // of its delay
	direct bool          // none of its delay is left
	probe  bool          // of its destination, which has not confirmed others
	wait   time.Duration // if positive, until it is looked at again
	err    error
}

func (i *item) published() bool { return i.err == nil && i.wait == 0 }

// tried says that an attempt to publish has failed, or has no result yet.
func (i *item) tried() bool { return i.err != nil && i.err != errHeld } //nolint:errorlint // it is not wrapped

// relay publishes one batch. Its rows are locked until the transaction ends, so no other relay
// publishes them. If this process dies, the database unlocks them at once. next is the time until
// there may be more to do.
func (r *Relay) relay(ctx context.Context) (found int, next time.Duration, err error) {
	found, err = r.batch(ctx)
	if err != nil || found == r.cfg.Batch {
		return found, 0, err
	}
	// After the commit: what was published stays so, whatever becomes of this question.
	var us *int64
	if err := r.pool.QueryRow(ctx, nextTry).Scan(&us); err != nil {
		return found, 0, err
	}
	if us == nil {
		return found, r.cfg.Poll, nil
	}
	return found, max(duration(*us), 0), nil
}

func (r *Relay) batch(ctx context.Context) (found int, err error) {
	tx, err := r.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // does nothing after Commit
	}()
	items, err := r.claim(ctx, tx)
	if err != nil {
		return 0, tables.Explain(err)
	}
	r.publish(ctx, items)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	away := r.judge(items)
	unsettled := settle(ctx, tx, items)
	return len(items), errors.Join(tx.Commit(ctx), unsettled, away)
}

func (r *Relay) claim(ctx context.Context, tx pgx.Tx) (items []*item, err error) {
	limit := fmt.Sprintf("%dms", (r.cfg.Timeout + 2*settleTimeout).Milliseconds())
	b := &pgx.Batch{}
	b.Queue(idleLimit, limit)
	b.Queue(claim, r.cfg.Batch).Query(func(rows pgx.Rows) error {
		items, err = pgx.CollectRows(rows, readItem)
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return items, nil
}

var errNoDue = errors.New("the column due is infinite: it must be a time")

func readItem(r pgx.CollectableRow) (*item, error) {
	var i item
	var text, body []byte
	var left *int64
	if err := r.Scan(&i.id, &i.attempts, &text, &body, &left); err != nil {
		return nil, err
	}
	if i.err = i.read(text, body); i.err == nil && left == nil {
		i.err = errNoDue
	}
	if left != nil {
		i.left = duration(*left)
	}
	return &i, nil
}

// duration converts microseconds. What is too long, or too long ago, becomes the longest Duration:
// the row is read again before that ends.
func duration(us int64) time.Duration {
	const longest = (1<<63 - 1) / int64(time.Microsecond)
	return time.Duration(max(min(us, longest), -longest)) * time.Microsecond
}

// judge sets how long each message that was not published waits. If the broker was away, it returns
// that error, and the messages that failed because of it do not wait.
func (r *Relay) judge(items []*item) (away error) {
	published, failed := 0, 0
	var first error
	for _, i := range items {
		switch {
		case i.published():
			published++
		case i.err != nil && brokerAway(i.err):
			away = i.err
		case i.tried():
			failed++
			first = i.err
		}
	}
	if published > 0 && !errors.Is(away, delayer.ErrClosed) {
		away = nil
	}
	for _, i := range items {
		if i.err == nil || i.wait > 0 || away != nil && brokerAway(i.err) {
			continue
		}
		i.wait = r.pause(i)
		if i.direct && errors.Is(i.err, context.DeadlineExceeded) {
			r.slow.Failed(i.destination(), time.Now())
		}
	}
	if failed > 0 {
		r.cfg.Logger.Warn("outbox: messages were not published; each is tried again after a pause", "messages", failed, "error", first)
	}
	return away
}

// brokerAway reports whether an error concerns the broker, not this message.
func brokerAway(err error) bool {
	for _, kind := range []error{delayer.ErrNotSent, delayer.ErrUnavailable, delayer.ErrNotFound, delayer.ErrClosed} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// pause returns how long a message that has failed once more is left alone. A count below zero, as
// in a row that was written by hand, is taken for none.
func (r *Relay) pause(i *item) time.Duration {
	return pace.Jitter(pace.Doubled(time.Second, r.cfg.MaxPause, max(i.attempts, 0)+1))
}

// settle deletes what was published and postpones what waits. What was published is deleted also if
// nothing can be postponed.
func settle(ctx context.Context, tx pgx.Tx, items []*item) error {
	var done, ids []int64
	var texts []*string
	var pauses []int64
	var tried []bool
	for _, i := range items {
		switch {
		case i.published():
			done = append(done, i.id)
		case i.wait > 0:
			ids, texts = append(ids, i.id), append(texts, errorText(i.err))
			pauses, tried = append(pauses, microseconds(i.wait)), append(tried, i.tried())
		}
	}
	if len(done) > 0 {
		if _, err := tx.Exec(ctx, remove, done); err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		_, err := savepoint.Exec(ctx, postpone, ids, texts, pauses, tried)
		return err
	})
}

const maxError = 1000

// errorText is the part of an error that fits the column: valid UTF-8 without NUL.
func errorText(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	text = strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), maxError)], "?"), "\x00", "?")
	return &text
}
