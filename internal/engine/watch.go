package engine

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/topology"
)

const (
	watchEvery = 5 * time.Second  // between two looks at the topology; by chance up to half as much longer
	watchAfter = 10 * time.Minute // how long the topology is looked after when nothing is on its way
)

// watch looks after the topology while messages are on their way: what somebody deletes under us is declared again
// before the messages come there, without a Publish that would notice.
func (e *Engine) watch(ctx context.Context) {
	defer close(e.watched)
	pause := cmp.Or(e.opts.WatchEvery, watchEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause + rand.N(pause/2)):
		}
		e.looking.Lock()
		if e.now() < e.busyUntil.Load() {
			e.lookAfter(ctx)
		}
		e.looking.Unlock()
	}
}

// lookAfter declares what is missing, and again what was declared on use before the last loss.
func (e *Engine) lookAfter(ctx context.Context) {
	log := e.opts.Broker.Slog()
	missing, err := topology.Missing(ctx, e.control, e.opts.Broker.Backend, e.known())
	if err == nil && len(missing) > 0 {
		log.Warn("objects of this Delayer were deleted; they are declared again, and what waited there is lost",
			"backend", e.opts.Broker.Backend, "objects", strings.Join(missing[:min(len(missing), 5)], ", "), "count", len(missing))
		e.stale.Store(true)
	}
	if err == nil && e.stale.Load() {
		err = e.redeclare(ctx)
	}
	if err == nil && e.relink.Swap(false) {
		if err = e.Declare(ctx, e.used()); err != nil {
			e.relink.Store(true)
		}
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("cannot look after the topology", "backend", e.opts.Broker.Backend, "error", err)
	}
}

// used is what Enter has declared since Open.
func (e *Engine) used() topology.Plan {
	if u, ok := e.strategy.(interface{ Used() topology.Plan }); ok {
		return u.Used()
	}
	return topology.Plan{}
}

// known is everything that has been declared, each object once.
func (e *Engine) known() topology.Plan {
	p := e.Plan()
	for _, q := range e.used().Queues {
		if !slices.ContainsFunc(p.Queues, func(have topology.Queue) bool { return have.Name == q.Name }) {
			p.Queues = append(p.Queues, q)
		}
	}
	return p
}

// keepWatch notes that a message will be on its way for so long.
func (e *Engine) keepWatch(delay time.Duration) {
	until := e.now() + int64(min(delay, 100*365*24*time.Hour)+watchAfter)
	if until > e.busyUntil.Load() {
		e.busyUntil.Store(until) // two that race differ by little
	}
}

// now is monotonic.
func (e *Engine) now() int64 { return int64(time.Since(e.epoch)) }
