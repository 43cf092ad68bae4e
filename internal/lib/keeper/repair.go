package keeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// Run watches the topology while messages wait, until ctx ends. Objects that somebody deletes are
// declared again, also if nobody publishes. After a failure it pauses for longer and longer.
func (k *Keeper) Run(ctx context.Context) {
	look := time.NewTimer(k.pause())
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.renewed:
			k.repair(ctx, false)
		case <-k.back:
			look.Reset(k.pause())
		case <-look.C:
			if k.Busy() {
				k.repair(ctx, true)
			}
			look.Reset(k.pause())
		}
	}
}

// pause is the time until the next look.
func (k *Keeper) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.repairing.answer != "" && k.Busy() {
		return k.repairing.wait(time.Now())
	}
	turn := min(k.cfg.Every, lookEvery)
	return turn + rand.N(turn/2)
}

// repair declares what is missing, and makes the bindings that were declared on use before the last
// loss. With look it finds out first, if the last look was long enough ago or has failed, or if
// there is a doubt.
func (k *Keeper) repair(ctx context.Context, look bool) {
	if k.hold(ctx, k.looking) != nil {
		return
	}
	defer func() { <-k.looking }()
	err := k.tend(ctx, look && (k.doubted() || k.failing() || time.Since(k.looked) >= k.cfg.Every))
	if ctx.Err() == nil {
		k.report(err)
	}
}

func (k *Keeper) tend(ctx context.Context, look bool) error {
	var found error
	if look {
		found = k.find(ctx)
	}
	if err := k.Ensure(ctx); err != nil {
		return err
	}
	k.missing = nil
	if k.Busy() && k.relink.Swap(false) {
		if err := k.restore(ctx); err != nil {
			k.relink.Store(true)
			return err
		}
	}
	if errors.Is(found, delayer.ErrConflict) {
		k.Doubt()
		k.learn(found)
	}
	return found
}

func (k *Keeper) failing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.repairing.answer != ""
}

// report notes the outcome of a repair. It logs a failure once a minute, and when it is over.
func (k *Keeper) report(err error) {
	k.mu.Lock()
	var log bool
	if err != nil {
		log = k.repairing.failed(time.Now(), err.Error())
	} else {
		log = k.repairing.succeeded()
	}
	k.mu.Unlock()
	switch {
	case !log:
	case errors.Is(err, delayer.ErrConflict):
		k.cfg.Log.Error("an exchange or queue of this Delayer has other arguments; no delayed message is published until this is mended",
			"backend", k.cfg.Backend, "error", err)
	case err != nil:
		k.cfg.Log.Warn("cannot check the topology", "backend", k.cfg.Backend, "error", err)
	default:
		k.cfg.Log.Info("the topology is right again", "backend", k.cfg.Backend)
	}
}

// next returns the topology with the bindings whose turn it is. Most topologies have few.
func (k *Keeper) next() topology.Plan {
	p := k.cfg.Topology
	if all := p.Bindings; len(all) > bindingsALook {
		end := min(k.bound+bindingsALook, len(all))
		p.Bindings, k.bound = all[k.bound:end], end%len(all)
	}
	return p
}

// find doubts the topology if one of its objects is gone. It tells of each loss once. Its error
// says what is wrong with objects that are there. Only a conflict says something of the topology: a
// user who may not declare any more can still publish.
func (k *Keeper) find(ctx context.Context) error {
	missing, err := k.look(ctx)
	if err != nil {
		return err
	}
	k.looked = time.Now()
	if len(missing) == 0 {
		return nil
	}
	k.Doubt()
	gone := slices.DeleteFunc(slices.Clone(missing), func(object string) bool { return slices.Contains(k.missing, object) })
	k.missing = missing
	if len(gone) == 0 {
		return nil
	}
	k.cfg.Log.Warn("exchanges or queues of this Delayer were deleted; it declares them again, but messages that waited in them are lost",
		"backend", k.cfg.Backend, "objects", strings.Join(gone[:min(len(gone), 5)], ", "), "count", len(gone))
	if deleted := k.cfg.Observer.Deleted; deleted != nil {
		deleted(delayer.DeletedEvent{Backend: k.cfg.Backend, Objects: gone})
	}
	return nil
}

// look names what is missing.
func (k *Keeper) look(ctx context.Context) ([]string, error) {
	if k.cfg.Imported {
		return k.cfg.Objects.Missing(ctx, k.cfg.Topology)
	}
	return k.cfg.Objects.Check(ctx, k.next())
}

// restore makes the bindings that waiting messages need.
func (k *Keeper) restore(ctx context.Context) error {
	if k.cfg.OnUse != nil {
		if err := k.Declare(ctx, k.cfg.OnUse.Used()); err != nil {
			return err
		}
	}
	if k.cfg.Rebind != nil {
		return k.cfg.Rebind(ctx)
	}
	return nil
}
