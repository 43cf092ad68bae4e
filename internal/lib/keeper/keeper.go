// Package keeper keeps the topology of a Delayer in the broker. It declares the objects of Open,
// and further bindings when they are first used. It notices when somebody deletes objects, and
// declares them again.
package keeper

import (
	"cmp"
	"context"
	"errors"
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
	// Every is the least time between two looks for what is missing. 0: five seconds, and more for
	// a large topology.
	Every time.Duration
	// Observer is told what is missing and what is declared again.
	Observer delayer.Observer
}

// Objects declares and checks the objects of a broker. Package objects has them.
type Objects interface {
	// Apply declares the objects of p. Existing objects with the same arguments stay as they are.
	Apply(ctx context.Context, p topology.Plan) error
	// Restore is Apply for objects of which some may be gone, and of which another process may be
	// declaring the same.
	Restore(ctx context.Context, p topology.Plan) error
	// Missing names the exchanges and queues of p that do not exist.
	Missing(ctx context.Context, p topology.Plan) ([]string, error)
	// Check names the exchanges and queues of p that do not exist, and declares nothing then. If
	// there are none it declares p, which finds those with other arguments, and makes bindings that
	// are gone.
	Check(ctx context.Context, p topology.Plan) (missing []string, err error)
}

// OnUse are bindings that are declared when they are first used.
type OnUse interface {
	// Reset makes each of them be declared again on its next use.
	Reset()
	// Used lists all that were ever declared: messages may be waiting for them.
	Used() topology.Plan
}

const (
	lookEvery = 5 * time.Second // between two turns of Run, plus up to half of it at random
	perSecond = 25              // questions at most, on average

	// bindingsALook is how many bindings of the topology a look makes again. Where the metadata is
	// in Khepri (RabbitMQ 4.x) each is a Raft command, also if the binding is there.
	bindingsALook = 64

	lookAfter = 10 * time.Minute // how long the topology is watched after the last message was due
)

// A Keeper is safe for concurrent use.
type Keeper struct {
	cfg Config

	doubts    atomic.Uint64 // how often the topology was doubted: it may be gone
	settled   atomic.Uint64 // how many of them were before a declaration that succeeded
	gone      atomic.Bool   // something in the broker gave the doubt, and not only a lost connection
	relink    atomic.Bool   // and the objects declared on use
	declaring chan struct{} // held while the topology is declared
	declared  time.Time     // when it was last declared; guarded by declaring

	looking   chan struct{} // held while the topology is repaired
	looked    time.Time     // when all objects were last looked for; guarded by looking
	missing   []string      // what was found missing and is not declared again; guarded by looking
	bound     int           // index of the binding that the next look begins with; guarded by looking
	epoch     time.Time
	busyUntil atomic.Int64 // nanoseconds since epoch: until when the topology is watched

	// Two signals: only what has changed wakes Run. What has failed is tried again after a pause,
	// or Run would wake itself.
	renewed chan struct{} // the topology was declared again: its bindings on use may be gone
	back    chan struct{} // a connection is back: what has failed may work now

	mu        sync.Mutex
	refusal   error   // the answer to the last declaration, which callers share for a while
	declares  backoff // of declarations
	repairing backoff // of Run
}

// New returns a Keeper that has declared nothing yet.
func New(cfg Config) *Keeper {
	cfg.Every = cmp.Or(cfg.Every, every(cfg.Topology))
	return &Keeper{
		cfg: cfg, declaring: make(chan struct{}, 1), looking: make(chan struct{}, 1), epoch: time.Now(),
		renewed: make(chan struct{}, 1), back: make(chan struct{}, 1),
	}
}

// every is the least time between two looks: each declares every exchange and queue, and some
// bindings. That costs the broker 2.8 ms for the 141 objects of the default ladder, 10.4 ms for 270
// of the slots with 64 bindings (RabbitMQ 3.10.8, two cores).
func every(p topology.Plan) time.Duration {
	questions := len(p.AllExchanges()) + len(p.Queues) + min(len(p.Bindings), bindingsALook)
	return max(lookEvery, time.Duration(questions)*time.Second/perSecond)
}

// Open declares the topology for the first time.
func (k *Keeper) Open(ctx context.Context) error {
	k.declared = time.Now()
	return k.Declare(ctx, k.cfg.Topology)
}

// Declare declares p. In an imported topology it only makes sure that p exists.
func (k *Keeper) Declare(ctx context.Context, p topology.Plan) error {
	return k.declare(ctx, p, k.cfg.Objects.Apply)
}

func (k *Keeper) declare(ctx context.Context, p topology.Plan, how func(context.Context, topology.Plan) error) error {
	if k.cfg.Imported {
		return k.exists(ctx, p)
	}
	return how(ctx, p)
}

// Doubt notes that the topology may be gone, as when a message was returned. The next Ensure
// declares it again.
func (k *Keeper) Doubt() {
	k.gone.Store(true)
	k.doubts.Add(1)
}

// Doubted reports whether the topology may be gone: Ensure would declare it.
func (k *Keeper) Doubted() bool { return k.doubted() }

func (k *Keeper) doubted() bool { return k.doubts.Load() != k.settled.Load() }

// Reconnected is Doubt after a lost connection. What has failed before is tried again soon.
func (k *Keeper) Reconnected() {
	k.doubts.Add(1)
	k.mu.Lock()
	k.declares.changed()
	k.repairing.changed()
	k.mu.Unlock()
	signal(k.back)
}

// Ensure declares the topology again if it is doubted, once for all callers at the same time. After
// a failure all callers get its error for up to five seconds.
func (k *Keeper) Ensure(ctx context.Context) error {
	if !k.doubted() {
		return nil
	}
	return k.Renew(ctx, math.MaxInt64)
}

// Redeclare declares the topology again, of which something may be gone. Callers that doubt it at
// the same time share one declaration, and for up to a minute the error of one that failed: they
// are loops, and nobody waits for them.
func (k *Keeper) Redeclare(ctx context.Context) error {
	k.Doubt()
	return k.renew(ctx, math.MaxInt64, longestPause)
}

// Renew declares the topology again if it is doubted or was declared longer than age ago, once for
// all callers at the same time. Like Ensure it shares errors.
func (k *Keeper) Renew(ctx context.Context, age time.Duration) error {
	return k.renew(ctx, age, callersPause)
}

// renew returns the error of a declaration that failed less than share ago, until the next is due.
func (k *Keeper) renew(ctx context.Context, age, share time.Duration) error {
	if err := k.hold(ctx, k.declaring); err != nil {
		return err
	}
	free := func() { <-k.declaring }
	if !k.doubted() && time.Since(k.declared) < age {
		free()
		return nil
	}
	if err := k.refused(share); err != nil {
		free()
		return err
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

// own is an error that its receiver may change, as who adds a destination to it: others have the
// same.
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

// declareAgain declares the topology, until the connection is closed.
func (k *Keeper) declareAgain(ctx context.Context) error {
	doubts := k.doubts.Load() // a loss meanwhile is another one
	k.forget()
	how := k.cfg.Objects.Apply
	if k.gone.Swap(false) {
		how = k.cfg.Objects.Restore
	}
	err := k.declare(ctx, k.cfg.Topology, how)
	k.learn(err)
	if err != nil {
		k.Doubt()
		return err
	}
	k.settled.Store(doubts)
	k.declared = time.Now()
	k.relink.Store(true)
	signal(k.renewed)
	return nil
}

// hold takes a lock, which is a channel so that ctx ends the wait.
func (k *Keeper) hold(ctx context.Context, lock chan struct{}) error {
	select {
	case lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return k.gaveUp(ctx)
	}
}

func (k *Keeper) gaveUp(ctx context.Context) error {
	return &delayer.Error{Op: "publish", Backend: k.cfg.Backend, Kind: delayer.ErrNotSent, Cause: context.Cause(ctx)}
}

// refused returns the error of the last declaration while it is shared: thousands of callers must
// not declare one after the other what the broker has just refused.
func (k *Keeper) refused(share time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.refusal == nil || k.declares.wait(now) == 0 || now.Sub(k.declares.at) >= share {
		return nil
	}
	return own(k.refusal)
}

// learn notes the outcome of a declaration, and tells the Observer.
func (k *Keeper) learn(err error) {
	k.mu.Lock()
	k.refusal = err
	if err == nil {
		k.declares.succeeded()
	} else {
		k.declares.failed(time.Now(), err.Error())
	}
	k.mu.Unlock()
	if redeclared := k.cfg.Observer.Redeclared; redeclared != nil {
		redeclared(delayer.RedeclareEvent{Backend: k.cfg.Backend, Err: err})
	}
}

// signal wakes Run, which may be awake already.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// forget makes the next Publish that uses a binding make it again.
func (k *Keeper) forget() {
	if k.cfg.OnUse != nil {
		k.cfg.OnUse.Reset()
	}
	if k.cfg.Forget != nil {
		k.cfg.Forget()
	}
}

// Expect notes that a message will wait for this delay.
func (k *Keeper) Expect(delay time.Duration) {
	until := k.now() + int64(min(delay, 100*365*24*time.Hour)+lookAfter)
	for was := k.busyUntil.Load(); until > was && !k.busyUntil.CompareAndSwap(was, until); was = k.busyUntil.Load() {
	}
}

// Busy reports whether messages wait, or waited in the last ten minutes.
func (k *Keeper) Busy() bool { return k.now() < k.busyUntil.Load() }

// now is monotonic.
func (k *Keeper) now() int64 { return int64(time.Since(k.epoch)) }

// Restore declares p again for whoever has found it missing.
func (k *Keeper) Restore(ctx context.Context, p topology.Plan) error {
	if err := k.hold(ctx, k.looking); err != nil {
		return err
	}
	defer func() { <-k.looking }()
	return k.Declare(ctx, p)
}
