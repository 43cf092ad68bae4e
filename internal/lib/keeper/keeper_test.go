package keeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// objects is a broker in memory: it has or lacks the one queue, and the bindings on use.
type fakeBroker struct {
	mu       sync.Mutex
	has      bool
	linked   bool
	declares int
	restores int // of the declarations
	attempts int
	looks    int
	fail     error         // the answer to each declaration
	slow     time.Duration // how long it takes
}

func (o *fakeBroker) Apply(ctx context.Context, p topology.Plan) error {
	o.mu.Lock()
	slow := o.slow
	o.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts++
	if o.fail != nil {
		return o.fail
	}
	o.declares++
	o.has = o.has || len(p.Queues) > 0
	o.linked = o.linked || len(p.Bindings) > 0
	return nil
}

func (o *fakeBroker) Restore(ctx context.Context, p topology.Plan) error {
	o.set(func() { o.restores++ })
	return o.Apply(ctx, p)
}

func (o *fakeBroker) Check(ctx context.Context, p topology.Plan) ([]string, error) {
	if missing, _ := o.Missing(ctx, p); len(missing) > 0 {
		return missing, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts++
	return nil, o.fail
}

func (o *fakeBroker) Missing(_ context.Context, p topology.Plan) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks++
	if o.has || len(p.Queues) == 0 {
		return nil, nil
	}
	return []string{`queue "q"`}, nil
}

func (o *fakeBroker) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

func (o *fakeBroker) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.declares
}

func (o *fakeBroker) tried() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.attempts
}

func (o *fakeBroker) state() (has, linked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.has, o.linked
}

// links are bindings that were used, and whether they were forgotten since.
type links struct{ resets int }

func (l *links) Reset() { l.resets++ }
func (l *links) Used() topology.Plan {
	return topology.Plan{Bindings: []topology.Binding{{Source: "x", Target: "q"}}}
}

// kept runs a test on a Keeper that has been opened and runs.
func kept(t *testing.T, test func(t *testing.T, k *Keeper, o *fakeBroker, l *links)) {
	keptOf(t, 1, test)
}

func keptOf(t *testing.T, queues int, test func(t *testing.T, k *Keeper, o *fakeBroker, l *links)) {
	synctest.Test(t, func(t *testing.T) {
		o, l := &fakeBroker{}, &links{}
		k := New(Config{
			Backend: "test", Log: slog.New(slog.DiscardHandler), Objects: o, OnUse: l,
			Topology: topology.Plan{Queues: slices.Repeat([]topology.Queue{{Name: "q"}}, queues)},
		})
		require.NoError(t, k.Open(t.Context()))
		k.Expect(0)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		defer func() { stop(); <-done }()
		test(t, k, o, l)
	})
}

func TestKeeper_DeletedObject(t *testing.T) {
	kept(t, func(t *testing.T, _ *Keeper, o *fakeBroker, l *links) {
		o.set(func() { o.has = false })
		time.Sleep(lookEvery * 2) // of the bubble's clock
		synctest.Wait()
		has, linked := o.state()
		require.True(t, has, "declared again, though nobody publishes")
		require.True(t, linked, "with the bindings that were declared on use")
		require.Positive(t, l.resets, "which the next message makes sure of")
	})
}

// TestKeeper_Every: a look asks for each object, so a large topology is looked at less often.
func TestKeeper_Every(t *testing.T) {
	of := func(markers, exchanges, queues int) topology.Plan {
		return topology.Plan{
			Markers: make([]topology.Marker, markers), Exchanges: make([]topology.Exchange, exchanges), Queues: make([]topology.Queue, queues),
		}
	}
	require.Equal(t, lookEvery, every(of(0, 0, 1)))
	require.Equal(t, lookEvery, every(of(1, 24, 100)))
	require.Equal(t, 5040*time.Millisecond, every(of(1, 25, 100)))
	require.Equal(t, 10400*time.Millisecond, every(of(1, 9, 250)))
	require.Equal(t, time.Second, New(Config{Every: time.Second, Topology: of(1, 9, 250)}).cfg.Every, "as a test has it")
}

func TestKeeper_LargeTopology(t *testing.T) {
	const queues = 60 * perSecond
	keptOf(t, queues, func(t *testing.T, k *Keeper, o *fakeBroker, _ *links) {
		const during = lookAfter - time.Minute
		time.Sleep(during)
		synctest.Wait()
		require.LessOrEqual(t, o.looks, int(during/time.Minute))
		require.GreaterOrEqual(t, o.looks, int(during/(time.Minute+lookEvery*3/2)))
		o.set(func() { o.has = false })
		k.Doubt()
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		has, _ := o.state()
		require.True(t, has, "what is doubted is declared again before the next look")
	})
}

func TestKeeper_Doubt(t *testing.T) {
	kept(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ *links) {
		o.set(func() { o.has = false })
		require.NoError(t, k.Ensure(t.Context()))
		has, _ := o.state()
		require.False(t, has, "nothing is doubted")
		require.NoError(t, k.Redeclare(t.Context()))
		synctest.Wait()
		has, linked := o.state()
		require.True(t, has)
		require.True(t, linked, "at once, not with the next look")
	})
}

// TestKeeper_Restore: what may be gone is declared so that another process may do the same. After a
// lost connection, which all processes lose at once, that would be work for nothing.
func TestKeeper_Restore(t *testing.T) {
	kept(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ *links) {
		ensure := func() (restores int, err error) {
			err = k.Ensure(t.Context())
			synctest.Wait() // Run has done what follows of it
			o.set(func() { restores, o.restores = o.restores, 0 })
			return restores, err
		}
		before := o.count()
		k.Reconnected()
		restores, err := ensure()
		require.NoError(t, err)
		require.Zero(t, restores)
		require.Greater(t, o.count(), before)
		k.Doubt()
		k.Reconnected()
		o.set(func() { o.fail = errors.New("no connection") })
		restores, err = ensure()
		require.Error(t, err)
		require.Equal(t, 1, restores)
		o.set(func() { o.fail = nil })
		time.Sleep(firstPause)
		restores, err = ensure()
		require.NoError(t, err)
		require.Equal(t, 1, restores, "again: the first attempt failed")
	})
}

func TestKeeper_FailedDeclaration(t *testing.T) {
	kept(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ *links) {
		o.set(func() { o.has, o.fail = false, errors.New("no connection") })
		require.Error(t, k.Redeclare(t.Context()))
		o.set(func() { o.fail = nil })
		time.Sleep(firstPause)
		require.NoError(t, k.Ensure(t.Context()), "the doubt remains until it is declared")
		has, _ := o.state()
		require.True(t, has)
	})
}

func TestKeeper_Idle(t *testing.T) {
	kept(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ *links) {
		time.Sleep(lookAfter + 2*lookEvery)
		o.set(func() { o.has = false })
		time.Sleep(lookAfter)
		synctest.Wait()
		has, _ := o.state()
		require.False(t, has, "nothing is on its way")
		k.Expect(time.Hour)
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		has, _ = o.state()
		require.True(t, has)
		require.True(t, k.Busy())
		time.Sleep(time.Hour + lookAfter)
		require.False(t, k.Busy())
	})
}

func TestKeeper_OneDeclaresForAll(t *testing.T) {
	kept(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ *links) {
		synctest.Wait()
		before := o.count()
		k.Doubt()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { require.NoError(t, k.Ensure(t.Context())) })
		}
		all.Wait()
		synctest.Wait()
		require.Equal(t, before+2, o.count(), "the topology once, and the bindings on use once")
		require.NoError(t, k.Renew(t.Context(), time.Second), "declared less than a second ago")
		require.Equal(t, before+2, o.count())
		time.Sleep(time.Second)
		require.NoError(t, k.Renew(t.Context(), time.Second))
		require.Greater(t, o.count(), before+2)
	})
}

func TestKeeper_Imported(t *testing.T) {
	o := &fakeBroker{}
	k := New(Config{Backend: "test", Imported: true, Objects: o, Topology: topology.Plan{Queues: []topology.Queue{{Name: "q"}}}})
	err := k.Open(t.Context())
	require.ErrorIs(t, err, delayer.ErrNotFound)
	require.ErrorContains(t, err, `there must be queue "q"`)
	require.Zero(t, o.declares)
	o.has = true
	require.NoError(t, k.Open(t.Context()))
}
