package keeper

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
)

// Run watches the topology while messages wait, until ctx ends. Objects that somebody deletes are
// declared again, also if nobody publishes.
func (k *Keeper) Run(ctx context.Context) {
	look := time.NewTimer(k.pause())
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
			k.repair(ctx, false)
		case <-look.C:
			if k.Busy() {
				k.repair(ctx, true)
			}
			look.Reset(k.pause())
		}
	}
}

func (k *Keeper) pause() time.Duration {
	turn := min(k.cfg.Every, lookEvery)
	return turn + rand.N(turn/2)
}

// repair declares what is missing, and makes the bindings that were declared on use before the last
// loss. With look it finds out first, if the last look was long enough ago or there is a doubt.
func (k *Keeper) repair(ctx context.Context, look bool) {
	k.looking.Lock()
	defer k.looking.Unlock()
	var err error
	if look && (k.doubted.Load() || time.Since(k.looked) >= k.cfg.Every) {
		err = k.find(ctx)
	}
	if err == nil {
		err = k.Ensure(ctx)
	}
	if err == nil && k.Busy() && k.relink.Swap(false) {
		if err = k.restore(ctx); err != nil {
			k.relink.Store(true)
		}
	}
	if err != nil && ctx.Err() == nil {
		k.cfg.Log.Warn("cannot check the topology", "backend", k.cfg.Backend, "error", err)
	}
}

// find doubts the topology if one of its objects is gone.
func (k *Keeper) find(ctx context.Context) error {
	missing, err := k.cfg.Objects.Missing(ctx, k.cfg.Topology)
	if err != nil {
		return err
	}
	k.looked = time.Now()
	if len(missing) > 0 {
		k.cfg.Log.Warn("exchanges or queues of this Delayer were deleted; it declares them again, but messages that waited in them are lost",
			"backend", k.cfg.Backend, "objects", strings.Join(missing[:min(len(missing), 5)], ", "), "count", len(missing))
		if deleted := k.cfg.Observer.Deleted; deleted != nil {
			deleted(delayer.DeletedEvent{Backend: k.cfg.Backend, Objects: missing})
		}
		k.Doubt()
	}
	return nil
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
