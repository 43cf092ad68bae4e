package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/delayer-go/delayer"
)

// patience is how long a batch waits for its last confirms while none comes.
const patience = time.Second

// A result is the outcome of a Publish.
type result struct {
	*item
	err error
}

// publish publishes the messages of a batch concurrently. If ctx ends, they still have stopTimeout:
// a message that is given up between Publish and its confirm is published twice.
//
// If the broker confirms some and not others, publish leaves these: the rows of the former must not
// stay locked for them. settleLate settles them.
func (r *Relay) publish(ctx context.Context, items []*item) {
	running, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Timeout)
	stop := context.AfterFunc(ctx, func() {
		sleep(running, stopTimeout, nil)
		cancel()
	})
	results := make(chan result, len(items))
	unconfirmed := map[*item]bool{} // and whether its destination is known to be slow
	for _, i := range items {
		if i.err != nil {
			continue
		}
		var delay time.Duration
		if delay, i.wait = plan(i.left, r.limits); i.wait > 0 {
			continue
		}
		known := false
		if i.direct = delay == 0; i.direct { // others go to queues of the Delayer
			if i.wait, known = r.slow.hold(i.destination(), time.Now()); i.wait > 0 {
				i.err = errHeld
				continue
			}
		}
		unconfirmed[i] = known
		go func() { results <- result{i, r.delayer.Publish(running, i.exchange, i.key, delay, i.msg)} }()
	}
	r.confirms(results, unconfirmed)
	deadline, _ := running.Deadline()
	for i := range unconfirmed {
		i.err = errUnconfirmed
		i.wait = time.Until(deadline) + pause(i.attempts+1, r.cfg.MaxPause) // it has its result before
		if i.direct {
			r.slow.mark(i.destination(), time.Now())
		}
		r.slow.left(i.destination())
	}
	left := len(unconfirmed)
	end := func() { stop(); cancel() }
	if left == 0 {
		end()
		return
	}
	r.awaiting.Go(func() {
		defer end()
		for range left {
			r.settleLate(<-results)
		}
	})
}

// confirms takes results until each message has its own, or no more are to be waited for. It
// removes from unconfirmed those that have one.
func (r *Relay) confirms(results <-chan result, unconfirmed map[*item]bool) {
	works, others := false, 0 // others: to destinations that are not known to be slow
	for _, known := range unconfirmed {
		if !known {
			others++
		}
	}
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for len(unconfirmed) > 0 {
		if others == 0 && r.slow.room(len(unconfirmed), r.cfg.Batch) {
			return
		}
		select {
		case got := <-results:
			got.item.err = got.err
			if !unconfirmed[got.item] {
				others--
			}
			delete(unconfirmed, got.item)
			works = works || got.err == nil
			r.heard(got)
		case <-silence.C:
			if works && r.slow.room(len(unconfirmed), r.cfg.Batch) {
				return
			}
		}
		silence.Reset(patience)
	}
}

// heard notes an answer of a destination.
func (r *Relay) heard(got result) {
	if got.direct && (got.err == nil || errors.Is(got.err, delayer.ErrUnroutable) || errors.Is(got.err, delayer.ErrRefused)) {
		r.slow.answered(got.destination())
	}
}

// settleLate settles a message that its batch has left. Its row counts as tried, and no relay takes
// it before the next try.
func (r *Relay) settleLate(got result) {
	defer r.slow.ended(got.destination())
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	r.heard(got)
	// The batch may still hold the row's lock. What it then writes is an error with a stricter
	// isolation.
	err := pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
		if got.err == nil {
			_, err = tx.Exec(ctx, remove, []int64{got.id})
		} else {
			wait := pause(got.attempts+1, r.cfg.MaxPause)
			_, err = tx.Exec(ctx, postpone, []int64{got.id}, []*string{errorText(got.err)}, []int64{microseconds(wait)}, []bool{false})
		}
		return err
	})
	if err != nil {
		r.cfg.Logger.Warn("outbox: a row that was published late was not settled; it is published again", "row", got.id, "error", err)
	}
}
