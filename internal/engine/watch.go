package engine

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer/internal/guard"
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
	var guarding sync.WaitGroup
	defer guarding.Wait()
	if e.guard != nil {
		guarding.Go(func() { e.guard.Run(ctx, e.busy) })
	}
	pause := e.opts.pause()
	look := time.NewTimer(pause + rand.N(pause/2))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			e.looking.Lock()
			if e.busy() {
				e.repair(ctx)
			}
			e.looking.Unlock()
			look.Reset(pause + rand.N(pause/2))
		}
	}
}

// busy says that messages are on their way, or were lately.
func (e *Engine) busy() bool { return e.now() < e.busyUntil.Load() }

// pause is the least time between two looks.
func (o Options) pause() time.Duration { return cmp.Or(o.WatchEvery, watchEvery) }

// openWatch looks for policies that would make messages early or lose them.
func (e *Engine) openWatch(ctx context.Context) error {
	e.keepWatch(0)
	if _, ok := e.strategy.(Direct); ok {
		return nil
	}
	cfg := guard.Config{
		Backend: e.opts.Broker.Backend, Prefix: e.opts.Prefix, QueueType: e.opts.QueueType, Logger: e.opts.Broker.Slog(),
		Every: e.opts.pause(), Control: e.control, Publish: e.publisher.PublishDirect,
	}
	if e.opts.Inspect != nil {
		cfg.Inspect = func(ctx context.Context) error { return e.opts.Inspect(ctx, e.Plan()) }
	}
	e.guard = guard.New(cfg)
	return e.guard.Open(ctx)
}

// repair declares what is missing, and again what was declared on use before the last loss.
func (e *Engine) repair(ctx context.Context) {
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
