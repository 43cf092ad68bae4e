package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// slack is how much longer than what is left of a delay a tier may be. It covers the time from
// Enqueue to the relay.
const slack = time.Second

// plan returns the delay to publish a message with that is due after left, or a positive wait: look
// at it again then.
//
// A delay beyond the longest waits in the table until it fits. With tiers, a message that has
// already waited waits until what is left is a tier: the next longer tier could be hours longer.
func plan(left time.Duration, l delayer.Limits) (delay, wait time.Duration) {
	switch {
	case left <= 0:
		return 0, 0
	case len(l.Tiers) == 0:
		return min(left, l.Max), max(left-l.Max, 0)
	}
	at, _ := slices.BinarySearch(l.Tiers, left)
	if at < len(l.Tiers) && l.Tiers[at]-left <= slack {
		return l.Tiers[at], 0
	}
	if at == 0 {
		return 0, left
	}
	return 0, left - l.Tiers[at-1]
}

// patience is how long a batch waits for its last confirms while none comes.
const patience = time.Second

var (
	errUnconfirmed = errors.New("the broker has not confirmed it yet; its destination may have lost its majority")
	errHeld        = errors.New("not tried: its destination does not confirm other messages")
)

type result struct {
	*item
	err error
}

func (i *item) destination() message.Destination { return message.To(i.exchange, i.key) }

// publish publishes the messages of a batch concurrently. If ctx ends, they still have stopTimeout:
// a message that is given up between Publish and its confirm is published twice.
//
// If the broker confirms some and not others, as those for a quorum queue without a majority,
// publish leaves these: the rows of the former must not stay locked for them. They count as tried,
// no relay takes them before the next try, and a confirm that comes late deletes them. Further rows
// for such a destination are held off, but for one after each pause.
func (r *Relay) publish(ctx context.Context, items []*item) {
	running, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Timeout)
	stop := context.AfterFunc(ctx, func() {
		_ = pace.Sleep(running, stopTimeout)
		cancel()
	})
	end := func() { stop(); cancel() }
	results := make(chan result, len(items))
	unconfirmed := map[*item]struct{}{}
	for _, i := range items {
		if i.err != nil {
			continue
		}
		var delay time.Duration
		if delay, i.wait = plan(i.left, r.limits); i.wait > 0 {
			continue
		}
		if i.direct = delay == 0; i.direct { // others go to queues of the Delayer
			now := time.Now()
			var failures int
			if i.wait, failures = r.slow.Wait(i.destination(), now); i.wait > 0 {
				i.err = errHeld
				continue
			}
			if i.probe = failures > 0; i.probe {
				r.slow.Failed(i.destination(), now) // the others wait again
			}
		}
		unconfirmed[i] = struct{}{}
		go func() { results <- result{i, r.delayer.Publish(running, i.exchange, i.key, delay, i.msg)} }()
	}
	r.confirms(results, unconfirmed)
	if len(unconfirmed) == 0 {
		end()
		return
	}
	deadline, _ := running.Deadline()
	for i := range unconfirmed {
		i.err = errUnconfirmed
		i.wait = time.Until(deadline) + r.pause(i) // it has its result before
		if i.direct {
			r.slow.Failed(i.destination(), time.Now())
		}
	}
	left := len(unconfirmed)
	r.unconfirmed.Add(int64(left))
	r.awaiting.Go(func() {
		defer end()
		for range left {
			r.settleLate(<-results)
		}
	})
}

// confirms takes results until each message has its own, or no more are to be waited for. It
// removes from unconfirmed those that have one.
func (r *Relay) confirms(results <-chan result, unconfirmed map[*item]struct{}) {
	works, probes := false, 0
	for i := range unconfirmed {
		if i.probe {
			probes++
		}
	}
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for len(unconfirmed) > 0 {
		select {
		case got := <-results:
			got.item.err = got.err
			delete(unconfirmed, got.item)
			if got.probe {
				probes--
			}
			works = works || got.err == nil
			r.heard(got)
		case <-silence.C:
			room := int(r.unconfirmed.Load())+len(unconfirmed) <= r.cfg.Batch // they are in memory
			if room && (works || probes == len(unconfirmed)) {
				return
			}
		}
		silence.Reset(patience)
	}
}

func (r *Relay) heard(got result) {
	if got.direct && (got.err == nil || errors.Is(got.err, delayer.ErrUnroutable) || errors.Is(got.err, delayer.ErrRefused)) {
		r.slow.Succeeded(got.destination())
	}
}

// settleLate notes the result of a message whose batch did not wait for it. A row that was published
// is deleted; of another the error replaces errUnconfirmed.
func (r *Relay) settleLate(got result) {
	defer r.unconfirmed.Add(-1)
	r.heard(got)
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	if got.err != nil {
		if _, err := r.pool.Exec(ctx, explain, got.id, errorText(got.err)); err != nil {
			r.cfg.Logger.Warn("outbox: why a row was not published is not noted", "row", got.id, "error", err, "why", got.err)
		}
		return
	}
	if _, err := r.pool.Exec(ctx, remove, []int64{got.id}); err != nil {
		r.cfg.Logger.Warn("outbox: a row that was published late was not deleted; it is published again", "row", got.id, "error", err)
	}
}
