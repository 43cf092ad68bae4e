package keeper

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// errForbidden is what the broker answers to a user who may not declare any more.
var errForbidden = &delayer.Error{Op: "declare", Object: `queue "q"`, Kind: delayer.ErrAccess}

// errOther is what it answers when an object has other arguments.
var errOther = &delayer.Error{Op: "declare", Object: `queue "q"`, Kind: delayer.ErrConflict}

// logged runs a test on a Keeper whose log it can read.
func logged(t *testing.T, test func(t *testing.T, k *Keeper, o *fakeBroker, lines func(part string) int)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return text.Write(b)
		}), nil))
		o := &fakeBroker{}
		k := New(Config{Backend: "test", Log: log, Objects: o, Topology: topology.Plan{Queues: []topology.Queue{{Name: "q"}}}})
		require.NoError(t, k.Open(t.Context()))
		k.Expect(0)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		defer func() { stop(); <-done }()
		test(t, k, o, func(part string) int {
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(text.String(), part)
		})
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestKeeper_FailingIdle: a topology that cannot be declared, in a process that publishes nothing.
func TestKeeper_FailingIdle(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, lines func(string) int) {
		const during = time.Hour
		k.Expect(2 * during)
		o.set(func() { o.has, o.fail, o.attempts = false, errForbidden, 0 })
		k.Reconnected()
		time.Sleep(during)
		synctest.Wait()
		t.Logf("%d attempts and %d lines in an hour", o.tried(), lines("msg="))
		require.LessOrEqual(t, o.tried(), 2*60+10)
		require.GreaterOrEqual(t, o.tried(), 60)
		require.LessOrEqual(t, lines("cannot check the topology"), 61)
		require.Equal(t, 1, lines("were deleted"))
		o.set(func() { o.fail = nil })
		time.Sleep(longestPause)
		synctest.Wait()
		has, _ := o.state()
		require.True(t, has)
		require.Equal(t, 1, lines("the topology is right again"))
		require.Equal(t, 1, lines("were deleted"))
	})
}

// TestKeeper_FailingForCallers: thousands of messages are published meanwhile.
func TestKeeper_FailingForCallers(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ func(string) int) {
		o.set(func() { o.has, o.fail, o.attempts = false, errForbidden, 0 })
		k.Doubt()
		const minutes, each = 10, 50 * time.Millisecond
		var publishing sync.WaitGroup
		for range 100 {
			publishing.Go(func() {
				for range minutes * time.Minute / each {
					require.ErrorIs(t, k.Ensure(t.Context()), delayer.ErrAccess)
					time.Sleep(each)
				}
			})
		}
		publishing.Wait()
		t.Logf("%d attempts in %d minutes", o.tried(), minutes)
		require.LessOrEqual(t, o.tried(), minutes*int(time.Minute/callersPause)+minutes)
		o.set(func() { o.fail = nil })
		time.Sleep(callersPause)
		require.NoError(t, k.Ensure(t.Context()), "at most five seconds after it is mended")
	})
}

// TestKeeper_SharedErrorIsACopy: each caller adds its destination to its error.
func TestKeeper_SharedErrorIsACopy(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ func(string) int) {
		o.set(func() { o.fail = errForbidden })
		var first, one, two *delayer.Error
		require.ErrorAs(t, k.Redeclare(t.Context()), &first)
		require.ErrorAs(t, k.Ensure(t.Context()), &one)
		require.ErrorAs(t, k.Ensure(t.Context()), &two)
		require.NotSame(t, one, two)
		require.NotSame(t, first, one)
		first.Object = "its own"
		require.ErrorAs(t, k.Ensure(t.Context()), &two)
		require.NotEqual(t, "its own", two.Object)
	})
}

// TestKeeper_SlowDeclaration takes longer than any caller waits. It is not begun anew with each.
func TestKeeper_SlowDeclaration(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ func(string) int) {
		o.set(func() { o.slow, o.declares = 8*time.Second, 0 })
		k.Doubt()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			err := k.Ensure(ctx)
			cancel()
			if err == nil {
				break
			}
			require.ErrorIs(t, err, delayer.ErrNotSent)
		}
		require.NoError(t, k.Ensure(t.Context()))
		require.Equal(t, 1, o.count())
		k.Wait()
	})
}

// TestKeeper_Reconnected: what failed for long is tried again soon.
func TestKeeper_Reconnected(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ func(string) int) {
		k.Expect(time.Hour)
		o.set(func() { o.has, o.fail = false, errForbidden })
		k.Doubt()
		time.Sleep(20 * time.Minute)
		o.set(func() { o.fail = nil })
		k.Reconnected()
		time.Sleep(firstPause)
		synctest.Wait()
		has, _ := o.state()
		require.True(t, has)
	})
}

// TestKeeper_ReconnectedAgainAndAgain: each time the broker refuses, which must not cost it more
// than an attempt a second.
func TestKeeper_ReconnectedAgainAndAgain(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, _ func(string) int) {
		o.set(func() { o.has, o.fail, o.attempts = false, errForbidden, 0 })
		const during = time.Minute
		for range during / (10 * time.Millisecond) {
			k.Reconnected()
			_ = k.Redeclare(t.Context())
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, o.tried(), 2*int(during/firstPause))
	})
}

// TestKeeper_Conflict: a queue of ours has a stranger's arguments. Nothing is missing.
func TestKeeper_Conflict(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, lines func(string) int) {
		var told []error
		k.cfg.Observer.Redeclared = func(e delayer.RedeclareEvent) { told = append(told, e.Err) }
		k.Expect(time.Hour)
		o.set(func() { o.fail = errOther })
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		require.ErrorIs(t, k.Ensure(t.Context()), delayer.ErrConflict)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.ErrorIs(t, k.Ensure(t.Context()), delayer.ErrConflict)
		require.ErrorIs(t, told[0], delayer.ErrConflict)
		require.LessOrEqual(t, lines("has other arguments"), 11)
		o.set(func() { o.fail = nil })
		time.Sleep(longestPause)
		synctest.Wait()
		require.NoError(t, k.Ensure(t.Context()))
		require.NoError(t, told[len(told)-1])
		require.Equal(t, 1, lines("the topology is right again"))
	})
}

// TestKeeper_MayNotDeclare: a user who lost the permission to declare may still publish to what is
// there.
func TestKeeper_MayNotDeclare(t *testing.T) {
	logged(t, func(t *testing.T, k *Keeper, o *fakeBroker, lines func(string) int) {
		o.set(func() { o.fail, o.attempts = errForbidden, 0 })
		time.Sleep(lookAfter - lookEvery)
		synctest.Wait()
		require.NoError(t, k.Ensure(t.Context()))
		require.LessOrEqual(t, o.tried(), 30)
		require.Positive(t, lines("cannot check the topology"))
	})
}

// TestKeeper_BindingsInTurn: a look makes some bindings again; all have their turn.
func TestKeeper_BindingsInTurn(t *testing.T) {
	const many = 3*bindingsALook + 1
	var plan topology.Plan
	for i := range many {
		plan.Bindings = append(plan.Bindings, topology.Binding{Key: strconv.Itoa(i)})
	}
	k := New(Config{Topology: plan})
	var seen []topology.Binding
	for range 4 {
		next := k.next().Bindings
		require.LessOrEqual(t, len(next), bindingsALook)
		seen = append(seen, next...)
	}
	require.Equal(t, plan.Bindings, seen)
	require.Equal(t, plan.Bindings[:bindingsALook], k.next().Bindings)
	k = New(Config{Topology: topology.Plan{Bindings: slices.Clone(plan.Bindings[:bindingsALook])}})
	require.Len(t, k.next().Bindings, bindingsALook)
	require.Len(t, k.next().Bindings, bindingsALook)
}

// TestKeeper_RestoreObeysContext while a repair waits for a broker that does not answer.
func TestKeeper_RestoreObeysContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Config{Backend: "test", Objects: &fakeBroker{}})
		k.looking <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		require.ErrorIs(t, k.Restore(ctx, topology.Plan{}), delayer.ErrNotSent)
	})
}

func TestBackoff(t *testing.T) {
	var b backoff
	now := time.Now()
	require.Zero(t, b.wait(now))
	require.False(t, b.succeeded())
	var pauses []time.Duration
	for range 10 {
		b.failed(now, "no")
		require.LessOrEqual(t, b.wait(now), b.pause)
		require.GreaterOrEqual(t, b.wait(now), b.pause/2)
		pauses = append(pauses, b.pause)
	}
	const s = time.Second
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s, 60 * s}, pauses)
	b.changed()
	require.LessOrEqual(t, b.wait(now), s)
	b.failed(now, "no")
	require.Equal(t, s, b.pause)
	b.failed(now, "no")
	b.failed(now, "still no")
	require.Equal(t, s, b.pause, "another answer")
	require.True(t, b.succeeded())
	require.Zero(t, b.wait(now))
}

func TestBackoff_Log(t *testing.T) {
	var b backoff
	now := time.Now()
	require.True(t, b.failed(now, "no"))
	require.False(t, b.failed(now.Add(time.Second), "no"))
	require.True(t, b.failed(now.Add(2*time.Second), "another"))
	require.False(t, b.failed(now.Add(logEvery), "another"))
	require.True(t, b.failed(now.Add(2*time.Second+logEvery), "another"))
}
