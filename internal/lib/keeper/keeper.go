// Package keeper keeps the topology of a Delayer in the broker. It declares the objects of Open,
// and further bindings when they are first used. It notices when somebody deletes objects, and
// declares them again.
package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/internal/lib/pace"
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
	// Every is the pause between two looks at the topology, less up to half of it at random.
	// Default: 30 seconds.
	Every time.Duration
	// Observer is told what is missing and what is declared again.
	Observer delayer.Observer
}

// Objects are an objects.Live, which says what its methods do.
type Objects interface {
	Apply(ctx context.Context, p topology.Plan) error
	Restore(ctx context.Context, p topology.Plan) error
	Missing(ctx context.Context, p topology.Plan) ([]string, error)
}

// OnUse are bindings that are declared when they are first used.
type OnUse interface {
	// Reset makes each of them be declared again on its next use. gone: something in the broker gave
	// the doubt, and not only a lost connection.
	Reset(gone bool)
	// Used lists all that were ever declared: messages may be waiting for them.
	Used() topology.Plan
}

const (
	lookEvery = 30 * time.Second
	most      = 5 // objects that are named

	// The pauses after a declaration that failed.
	firstPause   = time.Second
	longestPause = lookEvery
	// callersPause is how long callers get its error: thousands must not declare one after the
	// other what the broker has just refused.
	callersPause = 5 * time.Second
)

// A Keeper is safe for concurrent use.
type Keeper struct {
	cfg Config

	doubts  atomic.Uint64 // how often the topology was doubted: it may be gone
	settled atomic.Uint64 // how many of them were before a declaration that succeeded
	gone    atomic.Bool   // something in the broker gave the doubt, and not only a lost connection
	relink  atomic.Bool   // it was declared again: the bindings on use may be gone too
	wake    pace.Signal   // of Run

	declaring chan struct{} // held while the topology is declared; guards declared and missing
	declared  time.Time     // when it was last declared
	missing   []string      // what was found missing, and is not declared again

	mu       sync.Mutex
	refusal  error        // of the last declaration; nil if it succeeded
	failed   time.Time    // when it failed
	until    time.Time    // when to try again
	backoff  pace.Backoff // of declarations
	warnings pace.Warnings
}

// New returns a Keeper that has declared nothing yet.
func New(cfg Config) *Keeper {
	cfg.Every = cmp.Or(cfg.Every, lookEvery)
	return &Keeper{
		cfg: cfg, wake: pace.NewSignal(), declaring: make(chan struct{}, 1),
		backoff: pace.Backoff{First: firstPause, Longest: longestPause},
	}
}

// Open declares the topology for the first time.
func (k *Keeper) Open(ctx context.Context) error {
	k.declared = time.Now()
	return k.Declare(ctx, k.cfg.Topology)
}

// Declare declares p. In an imported topology it only makes sure that the exchanges and queues of p
// exist. Bindings cannot be seen.
func (k *Keeper) Declare(ctx context.Context, p topology.Plan) error {
	if !k.cfg.Imported {
		return k.cfg.Objects.Apply(ctx, p)
	}
	missing, err := k.cfg.Objects.Missing(ctx, p)
	if err != nil || len(missing) == 0 {
		return err
	}
	return &delayer.Error{
		Op: "open", Backend: k.cfg.Backend, Object: "topology", Kind: delayer.ErrNotFound,
		Cause: fmt.Errorf("with passive: true there must be %s", format.Some(missing, most, ", ")),
		Hint:  "import what this prints: delayer topology print --output definitions, with the same configuration",
	}
}

// Doubt notes that the topology may be gone, as when a message was returned. The next Ensure
// declares it again.
func (k *Keeper) Doubt() {
	k.gone.Store(true)
	k.doubts.Add(1)
	k.wake.Set()
}

// Doubted reports whether the topology may be gone: Ensure would declare it.
func (k *Keeper) Doubted() bool { return k.doubts.Load() != k.settled.Load() }

// Reconnected is Doubt after a lost connection. What has failed before is tried again within a
// second.
func (k *Keeper) Reconnected() {
	k.doubts.Add(1)
	k.mu.Lock()
	k.backoff.Reset()
	if soon := time.Now().Add(firstPause); soon.Before(k.until) {
		k.until = soon
	}
	k.mu.Unlock()
	k.wake.Set()
}

// Ensure declares the topology again if it is doubted, once for all callers at the same time. After
// a failure all callers get its error for up to five seconds.
func (k *Keeper) Ensure(ctx context.Context) error {
	if !k.Doubted() {
		return nil
	}
	return k.Renew(ctx, math.MaxInt64)
}

// Redeclare is Doubt and Ensure.
func (k *Keeper) Redeclare(ctx context.Context) error {
	k.Doubt()
	return k.Ensure(ctx)
}

// Renew declares the topology again if it is doubted or was declared longer than age ago. It is
// like Ensure in everything else.
func (k *Keeper) Renew(ctx context.Context, age time.Duration) error {
	select {
	case k.declaring <- struct{}{}: // a channel, so that ctx ends the wait
	case <-ctx.Done():
		return k.gaveUp(ctx)
	}
	free := func() { <-k.declaring }
	if !k.Doubted() && time.Since(k.declared) < age {
		free()
		return nil
	}
	k.mu.Lock()
	now, refusal := time.Now(), k.refusal
	wait := now.Before(k.until) && now.Sub(k.failed) < callersPause
	k.mu.Unlock()
	if wait && refusal != nil {
		free()
		return own(refusal)
	}
	// A caller who leaves does not end the declaration: with a large topology and a slow broker no
	// caller's patience would be enough, and each would begin anew.
	done := make(chan error, 1)
	go func() {
		defer free()
		done <- k.declareAgain(context.WithoutCancel(ctx))
	}()
	select {
	case err := <-done:
		return own(err)
	case <-ctx.Done():
		return k.gaveUp(ctx)
	}
}

func (k *Keeper) gaveUp(ctx context.Context) error {
	return &delayer.Error{Op: "publish", Backend: k.cfg.Backend, Kind: delayer.ErrNotSent, Cause: context.Cause(ctx)}
}

// own returns an error that its receiver may change, as Publish does when it adds a destination:
// others have the same one.
func own(err error) error {
	var known *delayer.Error
	if errors.As(err, &known) {
		one := *known
		return &one
	}
	return err
}

// Wait returns once no declaration is under way. It is for after the connection was closed.
func (k *Keeper) Wait() {
	k.declaring <- struct{}{}
	<-k.declaring
}

// declareAgain declares the topology, until the connection is closed. First it finds out what is
// missing, and tells of each loss once.
func (k *Keeper) declareAgain(ctx context.Context) error {
	doubts := k.doubts.Load() // a loss meanwhile is another one
	gone := k.gone.Swap(false)
	if k.cfg.OnUse != nil { // the next Publish that uses a binding makes it again
		k.cfg.OnUse.Reset(gone)
	}
	if k.cfg.Forget != nil {
		k.cfg.Forget()
	}
	declare, err := k.Declare, error(nil)
	if gone {
		err = k.find(ctx)
		if !k.cfg.Imported {
			declare = k.cfg.Objects.Restore
		}
	}
	if err == nil {
		err = declare(ctx, k.cfg.Topology)
	}
	k.mu.Lock()
	was := k.refusal
	k.refusal, k.failed, k.until = err, time.Now(), time.Time{}
	switch {
	case err != nil:
		k.until = k.failed.Add(k.backoff.Failed())
		k.warn(err)
	case was != nil:
		k.backoff.Reset()
		k.cfg.Log.Info("the topology is declared again", "backend", k.cfg.Backend)
	}
	k.mu.Unlock()
	if redeclared := k.cfg.Observer.Redeclared; redeclared != nil {
		redeclared(delayer.RedeclareEvent{Backend: k.cfg.Backend, Err: err})
	}
	if err != nil {
		k.doubts.Add(1)
		k.gone.CompareAndSwap(false, gone)
		return err
	}
	k.settled.Store(doubts)
	k.declared, k.missing = time.Now(), nil
	k.relink.Store(true)
	k.wake.Set()
	return nil
}

func (k *Keeper) find(ctx context.Context) error {
	missing, err := k.cfg.Objects.Missing(ctx, k.cfg.Topology)
	if err != nil {
		return err
	}
	lost := slices.DeleteFunc(slices.Clone(missing), func(object string) bool { return slices.Contains(k.missing, object) })
	k.missing = missing
	if len(lost) == 0 {
		return nil
	}
	k.cfg.Log.Warn("exchanges or queues of this Delayer were deleted; it declares them again, but messages that waited in them are lost",
		"backend", k.cfg.Backend, "objects", format.Some(lost, most, ", "))
	if deleted := k.cfg.Observer.Deleted; deleted != nil {
		deleted(delayer.DeletedEvent{Backend: k.cfg.Backend, Objects: lost})
	}
	return nil
}

func (k *Keeper) warn(err error) {
	text := "cannot check the topology"
	if errors.Is(err, delayer.ErrConflict) {
		text = "an exchange or queue of this Delayer has other arguments; no delayed message is published until this is fixed"
	}
	k.warnings.Warn(k.cfg.Log, text, "backend", k.cfg.Backend, "error", err)
}

// Run looks at the topology every 30 seconds until ctx ends. What is missing is declared again,
// also if nobody publishes. After that the bindings are made that waiting messages need.
func (k *Keeper) Run(ctx context.Context) {
	for {
		pause := pace.Jitter(k.cfg.Every)
		if k.Doubted() {
			k.mu.Lock()
			pause = time.Until(k.until)
			k.mu.Unlock()
		}
		look := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			look.Stop()
			return
		case <-k.wake:
			look.Stop()
		case <-look.C:
			k.look(ctx)
		}
		err := k.Ensure(ctx)
		if err != nil || !k.relink.Swap(false) {
			continue
		}
		if k.cfg.OnUse != nil {
			err = k.Declare(ctx, k.cfg.OnUse.Used())
		}
		if err == nil && k.cfg.Rebind != nil {
			err = k.cfg.Rebind(ctx)
		}
		if err != nil && ctx.Err() == nil {
			k.relink.Store(true)
			k.warn(err)
		}
	}
}

// look doubts the topology if one of its objects is gone or has other arguments. Any other error
// says nothing of it: a user who may not declare any more can still publish.
func (k *Keeper) look(ctx context.Context) {
	if k.Doubted() {
		return
	}
	missing, err := k.cfg.Objects.Missing(ctx, k.cfg.Topology)
	switch {
	case len(missing) > 0:
		k.Doubt()
		return
	case err == nil && !k.cfg.Imported:
		err = k.Declare(ctx, k.cfg.Topology)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	if errors.Is(err, delayer.ErrConflict) {
		k.Doubt()
	} else {
		k.warn(err)
	}
}
