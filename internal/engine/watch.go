package engine

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
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
	pause := e.opts.pause()
	look := time.NewTimer(pause + rand.N(pause/2))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case bird, ok := <-e.canary.returning():
			if early := e.canary.welcome(bird, ok); early != nil { // at once: the next look is seconds away
				e.judge(early)
			}
		case <-look.C:
			e.looking.Lock()
			if e.now() < e.busyUntil.Load() {
				e.lookAfter(ctx)
			}
			e.looking.Unlock()
			look.Reset(pause + rand.N(pause/2))
		}
	}
}

// pause is the least time between two looks.
func (o Options) pause() time.Duration { return cmp.Or(o.WatchEvery, watchEvery) }

// openWatch looks for policies that would make messages early or lose them, and from then on sends canaries.
func (e *Engine) openWatch(ctx context.Context) error {
	e.keepWatch(0)
	if _, ok := e.strategy.(Direct); ok {
		return nil
	}
	e.canary = newCanary(e.opts, e.control, e.publisher.PublishDirect)
	if err := e.firstLook(ctx); err != nil {
		return err
	}
	if e.opts.Inspect == nil {
		return nil
	}
	return e.opts.Inspect(ctx, e.Plan())
}

// firstLook does not wait long for a broker that blocks publishing: the next look is soon.
func (e *Engine) firstLook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	return e.canary.look(ctx)
}

// lookAfter looks after the topology, and for policies.
func (e *Engine) lookAfter(ctx context.Context) {
	e.repair(ctx)
	if e.canary != nil {
		e.judge(e.suspect(ctx))
	}
}

// suspect returns the error of a policy that was found.
func (e *Engine) suspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	errs := []error{e.canary.fly(ctx), e.canary.look(ctx)}
	if e.opts.Inspect != nil {
		errs = append(errs, e.opts.Inspect(ctx, e.Plan()))
	}
	for _, err := range errs {
		if errors.Is(err, delayer.ErrConflict) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			e.opts.Broker.Slog().Debug("cannot look for policies", "backend", e.opts.Broker.Backend, "error", err)
		}
	}
	return nil
}

// lookTimeout is for all looks for policies together.
const lookTimeout = 30 * time.Second

// judge stops delayed messages from being published while a policy would spoil them, and lets them go on when it is
// gone: when nothing is found any more, and a canary has been in the queue for longer than the last one that was early.
func (e *Engine) judge(err error) {
	log := e.opts.Broker.Slog()
	was := e.fault.Load()
	var found *delayer.Error
	switch {
	case errors.As(err, &found):
		e.faultAt = time.Now()
		if was == nil {
			e.faultAge = 0
			log.Error("delayed messages would be early or lost; none is published until this is put right", "error", found)
		}
		e.faultAge = max(e.faultAge, ageOf(found))
		e.fault.Store(found)
	case was != nil && e.canary.survived(e.faultAt, e.faultAge+time.Second):
		e.fault.Store(nil)
		log.Info("the policy is gone; delayed messages are published again", "backend", e.opts.Broker.Backend)
	}
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

// ageOf is how old a canary was that came too soon.
func ageOf(err error) time.Duration {
	var soon *tooSoon
	if errors.As(err, &soon) {
		return soon.waited
	}
	return 0
}
