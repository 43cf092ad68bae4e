// Package keeper keeps the topology of a Delayer in the broker. It declares what Open needs, and the
// bindings that a message needs when they are first used; it finds out what somebody has deleted, and
// declares it again.
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
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/topology"
)

// Config says what is to be kept.
type Config struct {
	Backend string
	Log     *slog.Logger
	Objects Objects // of the broker

	// Topology is what Open declares.
	Topology topology.Plan
	// Imported says that an administrator has declared it: the Keeper only looks whether it is there.
	Imported bool
	// OnUse are the bindings that are declared when they are first used; nil where there are none.
	OnUse OnUse
	// Rebind binds all destinations with messages on their way again; nil where nothing is bound.
	Rebind func(context.Context) error
	// Forget makes Publish bind each destination again before it is used; nil likewise.
	Forget func()
	// Every is the least time between two looks at the topology. 0: five seconds.
	Every time.Duration
}

// Objects are those of the broker, as [Live] reaches them.
type Objects interface {
	// Declare makes what p lists. What is there already, with the same arguments, stays as it is.
	Declare(ctx context.Context, p topology.Plan) error
	// Missing names the exchanges and queues of p that do not exist.
	Missing(ctx context.Context, p topology.Plan) ([]string, error)
	// Remove deletes the exchanges and queues of p.
	Remove(ctx context.Context, p topology.Plan) error
}

// Live are the objects of a broker.
func Live(control *broker.Control, backend string) Objects { return live{control, backend} }

type live struct {
	control *broker.Control
	backend string
}

func (l live) Declare(ctx context.Context, p topology.Plan) error {
	return topology.Apply(ctx, l.control, l.backend, p)
}

func (l live) Missing(ctx context.Context, p topology.Plan) ([]string, error) {
	return topology.Missing(ctx, l.control, l.backend, p)
}

func (l live) Remove(ctx context.Context, p topology.Plan) error {
	return topology.Remove(ctx, l.control, l.backend, p)
}

// OnUse is what is declared when it is first used.
type OnUse interface {
	// Reset forgets what was declared, so that it is declared again on its next use.
	Reset()
	// Used is all that was ever declared: messages may be on their way there.
	Used() topology.Plan
}

const (
	lookEvery = 5 * time.Second  // between two looks; by chance up to half as much longer
	lookAfter = 10 * time.Minute // how long the topology is watched when no message is on its way
)

// A Keeper is safe for concurrent use.
type Keeper struct {
	cfg Config

	doubted   atomic.Bool   // the topology may be gone
	relink    atomic.Bool   // and with it what was declared on use
	declaring chan struct{} // held by whoever declares it
	declared  time.Time     // when that was done last; owned by the holder of declaring

	looking   sync.Mutex // held while the topology is repaired, or removed
	epoch     time.Time
	busyUntil atomic.Int64  // nanoseconds since epoch: until when the topology is watched
	wake      chan struct{} // something was lost: repair the rest at once
}

// New returns a Keeper that has declared nothing yet.
func New(cfg Config) *Keeper {
	cfg.Every = cmp.Or(cfg.Every, lookEvery)
	return &Keeper{
		cfg: cfg, declaring: make(chan struct{}, 1), epoch: time.Now(), wake: make(chan struct{}, 1),
	}
}

// Open declares the topology for the first time.
func (k *Keeper) Open(ctx context.Context) error {
	k.Expect(0)
	k.declared = time.Now()
	return k.Declare(ctx, k.cfg.Topology)
}

// Declare makes p, or where the topology is imported makes sure that it is there.
func (k *Keeper) Declare(ctx context.Context, p topology.Plan) error {
	if k.cfg.Imported {
		return k.exists(ctx, p)
	}
	return k.cfg.Objects.Declare(ctx, p)
}

// Doubt notes that the topology may be gone: a connection was lost, or a message was returned. The
// next Ensure declares it again.
func (k *Keeper) Doubt() { k.doubted.Store(true) }

// Ensure declares the topology again if it is doubted, once for all who call it at the same time.
func (k *Keeper) Ensure(ctx context.Context) error {
	if !k.doubted.Load() {
		return nil
	}
	return k.Renew(ctx, math.MaxInt64)
}

// Renew declares the topology again if it is doubted or was declared longer than age ago, once for
// all who call it at the same time.
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
	k.doubted.Store(false) // before, so that a loss meanwhile is not forgotten
	k.forget()
	if err := k.Declare(ctx, k.cfg.Topology); err != nil {
		k.doubted.Store(true)
		return err
	}
	k.declared = time.Now()
	return nil
}

// forget makes sure that all bindings are made again: those of the next message on its use, those that
// messages on their way will need by Run.
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

// Expect notes that a message will be on its way for so long.
func (k *Keeper) Expect(delay time.Duration) {
	until := k.now() + int64(min(delay, 100*365*24*time.Hour)+lookAfter)
	if until > k.busyUntil.Load() {
		k.busyUntil.Store(until) // two that race differ by little
	}
}

// Busy says that messages are on their way, or were ten minutes ago.
func (k *Keeper) Busy() bool { return k.now() < k.busyUntil.Load() }

// now is monotonic.
func (k *Keeper) now() int64 { return int64(time.Since(k.epoch)) }

// Remove deletes all that Open has declared, and p, with the messages that wait there. The next Expect
// and Ensure declare it again, nothing before.
func (k *Keeper) Remove(ctx context.Context, p topology.Plan) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.busyUntil.Store(0)
	return k.cfg.Objects.Remove(ctx, p.Add(k.cfg.Topology))
}

// Restore declares p again for whoever has found it missing, but not what Remove has deleted.
func (k *Keeper) Restore(ctx context.Context, p topology.Plan) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	if k.busyUntil.Load() == 0 {
		return nil
	}
	return k.Declare(ctx, p)
}
