// Package keeper keeps the topology of a Delayer in the broker. It declares the objects of Open,
// and further bindings when they are first used. It notices when somebody deletes objects, and
// declares them again.
package keeper

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// Config says what a Keeper keeps.
type Config struct {
	Backend string
	Log     *slog.Logger
	Objects Objects // of the broker

	// Topology is declared by Open.
	Topology topology.Plan
	// Imported: an administrator has declared it, and the Keeper only checks that it exists.
	Imported bool
	// OnUse are the bindings that are declared when they are first used; nil if there are none.
	OnUse OnUse
	// Rebind binds all destinations for which messages wait; nil if nothing is bound.
	Rebind func(context.Context) error
	// Forget makes Publish bind each destination again before its next use; nil if nothing is
	// bound.
	Forget func()
	// Every is the least time between two looks for what is missing. 0: five seconds, and more for a
	// large topology.
	Every time.Duration
	// Observer is told what is missing and what is declared again.
	Observer delayer.Observer
}

// Objects declares and checks the objects of a broker. Package objects has them.
type Objects interface {
	// Apply declares the objects of p. Existing objects with the same arguments stay as they are.
	Apply(ctx context.Context, p topology.Plan) error
	// Missing names the exchanges and queues of p that do not exist.
	Missing(ctx context.Context, p topology.Plan) ([]string, error)
}

// OnUse are bindings that are declared when they are first used.
type OnUse interface {
	// Reset makes each of them be declared again on its next use.
	Reset()
	// Used lists all that were ever declared: messages may be waiting for them.
	Used() topology.Plan
}

const (
	lookEvery = 5 * time.Second  // between two turns of Run, plus up to half of it at random
	perSecond = 25               // questions at most, on average
	lookAfter = 10 * time.Minute // how long the topology is watched after the last message was due
)

// A Keeper is safe for concurrent use.
type Keeper struct {
	cfg Config

	doubted   atomic.Bool   // the topology may be gone
	relink    atomic.Bool   // and the objects declared on use
	declaring chan struct{} // held while the topology is declared
	declared  time.Time     // when it was last declared; guarded by declaring

	looking   sync.Mutex // held while the topology is repaired
	looked    time.Time  // when all objects were last looked for; guarded by looking
	epoch     time.Time
	busyUntil atomic.Int64  // nanoseconds since epoch: until when the topology is watched
	wake      chan struct{} // an object was lost: repair the rest at once
}

// New returns a Keeper that has declared nothing yet.
func New(cfg Config) *Keeper {
	cfg.Every = cmp.Or(cfg.Every, every(cfg.Topology))
	return &Keeper{
		cfg: cfg, declaring: make(chan struct{}, 1), epoch: time.Now(), wake: make(chan struct{}, 1),
	}
}

// every is the least time between two looks: each asks for every exchange and queue.
func every(p topology.Plan) time.Duration {
	objects := len(p.AllExchanges()) + len(p.Queues)
	return max(lookEvery, time.Duration(objects)*time.Second/perSecond)
}

// Open declares the topology for the first time.
func (k *Keeper) Open(ctx context.Context) error {
	k.Expect(0)
	k.declared = time.Now()
	return k.Declare(ctx, k.cfg.Topology)
}

// Declare declares p. In an imported topology it only makes sure that p exists.
func (k *Keeper) Declare(ctx context.Context, p topology.Plan) error {
	if k.cfg.Imported {
		return k.exists(ctx, p)
	}
	return k.cfg.Objects.Apply(ctx, p)
}

// Doubt notes that the topology may be gone: a connection was lost, or a message was returned. The
// next Ensure declares it again.
func (k *Keeper) Doubt() { k.doubted.Store(true) }

// Ensure declares the topology again if it is doubted, once for all callers at the same time.
func (k *Keeper) Ensure(ctx context.Context) error {
	if !k.doubted.Load() {
		return nil
	}
	return k.Renew(ctx, math.MaxInt64)
}

// Redeclare declares the topology again, of which something may be gone. Callers that doubt it at the
// same time share one declaration.
func (k *Keeper) Redeclare(ctx context.Context) error {
	k.Doubt()
	return k.Ensure(ctx)
}

// Renew declares the topology again if it is doubted or was declared longer than age ago, once for
// all callers at the same time.
func (k *Keeper) Renew(ctx context.Context, age time.Duration) error {
	select {
	case k.declaring <- struct{}{}:
		defer func() { <-k.declaring }()
	case <-ctx.Done():
		return &delayer.Error{
			Op: "publish", Backend: k.cfg.Backend, Kind: delayer.ErrNotSent, Cause: context.Cause(ctx),
		}
	}
	if !k.doubted.Load() && time.Since(k.declared) < age {
		return nil
	}
	k.doubted.Store(false) // first, so that a loss meanwhile is not forgotten
	k.forget()
	err := k.Declare(ctx, k.cfg.Topology)
	if err != nil {
		k.doubted.Store(true)
	} else {
		k.declared = time.Now()
	}
	if redeclared := k.cfg.Observer.Redeclared; redeclared != nil {
		redeclared(delayer.RedeclareEvent{Backend: k.cfg.Backend, Err: err})
	}
	return err
}

// forget makes sure that all bindings are made again: by the next Publish that uses them, and by
// Run for waiting messages.
func (k *Keeper) forget() {
	if k.cfg.OnUse != nil {
		k.cfg.OnUse.Reset()
	}
	if k.cfg.Forget != nil {
		k.cfg.Forget()
	}
	k.relink.Store(true)
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Expect notes that a message will wait for this delay.
func (k *Keeper) Expect(delay time.Duration) {
	until := k.now() + int64(min(delay, 100*365*24*time.Hour)+lookAfter)
	if until > k.busyUntil.Load() {
		k.busyUntil.Store(until) // concurrent values differ little
	}
}

// Busy reports whether messages wait, or waited in the last ten minutes.
func (k *Keeper) Busy() bool { return k.now() < k.busyUntil.Load() }

// now is monotonic.
func (k *Keeper) now() int64 { return int64(time.Since(k.epoch)) }

// Restore declares p again for whoever has found it missing.
func (k *Keeper) Restore(ctx context.Context, p topology.Plan) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	return k.Declare(ctx, p)
}
