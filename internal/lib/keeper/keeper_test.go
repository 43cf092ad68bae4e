package keeper

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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

// A fakeBroker has or lacks the one queue, and the bindings on use.
type fakeBroker struct {
	mu       sync.Mutex
	has      bool
	linked   bool
	declares int
	restores int // of the declarations
	attempts int
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

func (o *fakeBroker) Missing(_ context.Context, p topology.Plan) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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

// counts returns numbers of the broker.
func (o *fakeBroker) counts() (declares, restores, attempts int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.declares, o.restores, o.attempts
}

func (o *fakeBroker) state() (has, linked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.has, o.linked
}

// links are bindings that were used, and whether they were forgotten since.
type links struct{ resets int }

func (l *links) Reset(bool) { l.resets++ }
func (l *links) Used() topology.Plan {
	return topology.Plan{Bindings: []topology.Binding{{Source: "x", Target: "q"}}}
}

// A kept is a Keeper that was opened and runs.
type kept struct {
	*Keeper
	broker *fakeBroker
	links  *links

	mu         sync.Mutex
	log        bytes.Buffer
	deleted    []delayer.DeletedEvent
	redeclared []delayer.RedeclareEvent
}

func (k *kept) Write(line []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.log.Write(line)
}

// lines counts the lines of the log with a text.
func (k *kept) lines(text string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Count(k.log.String(), text)
}

// attempts are the declarations since the broker was changed, and as long as act takes.
func (k *kept) attempts(act func()) int {
	_, _, before := k.broker.counts()
	act()
	_, _, after := k.broker.counts()
	return after - before
}

func keep(t *testing.T, test func(t *testing.T, k *kept)) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{broker: &fakeBroker{}, links: &links{}}
		k.Keeper = New(Config{
			Backend: "test", Log: slog.New(slog.NewTextHandler(k, nil)), Objects: k.broker, OnUse: k.links,
			Topology: topology.Plan{Queues: []topology.Queue{{Name: "q"}}},
			Observer: delayer.Observer{
				Deleted:    func(e delayer.DeletedEvent) { k.deleted = append(k.deleted, e) },
				Redeclared: func(e delayer.RedeclareEvent) { k.redeclared = append(k.redeclared, e) },
			},
		})
		require.NoError(t, k.Open(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		defer func() { stop(); <-done }()
		synctest.Wait()
		test(t, k)
	})
}

func TestKeeper_DeletedObject(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		require.NoError(t, k.Ensure(t.Context()))
		time.Sleep(10 * lookEvery)
		require.Empty(t, k.redeclared, "a look at what is there is no declaration again")
		k.broker.set(func() { k.broker.has = false })
		time.Sleep(lookEvery)
		synctest.Wait()
		has, linked := k.broker.state()
		require.True(t, has, "declared again, though nobody publishes")
		require.True(t, linked, "with the bindings that were declared on use")
		require.Positive(t, k.links.resets, "which the next message makes sure of")
		require.Equal(t, []delayer.DeletedEvent{{Backend: "test", Objects: []string{`queue "q"`}}}, k.deleted)
		require.Equal(t, []delayer.RedeclareEvent{{Backend: "test"}}, k.redeclared)
	})
}

func TestKeeper_Doubt(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		k.broker.set(func() { k.broker.has = false })
		require.NoError(t, k.Ensure(t.Context()))
		has, _ := k.broker.state()
		require.False(t, has, "nothing is doubted")
		require.NoError(t, k.Redeclare(t.Context()))
		synctest.Wait()
		has, linked := k.broker.state()
		require.True(t, has)
		require.True(t, linked, "at once, not with the next look")
		require.Len(t, k.deleted, 1)
		k.broker.set(func() { k.broker.has = false })
		k.Doubt()
		synctest.Wait()
		has, _ = k.broker.state()
		require.True(t, has, "also if nobody publishes")
	})
}

// TestKeeper_Restore: what may be gone is declared so that another process may do the same. After a
// lost connection, which all processes lose at once, that would be work for nothing.
func TestKeeper_Restore(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		restored := func() int {
			synctest.Wait()
			_, restores, _ := k.broker.counts()
			k.broker.set(func() { k.broker.restores = 0 })
			return restores
		}
		k.Reconnected()
		require.NoError(t, k.Ensure(t.Context()))
		require.Zero(t, restored())
		require.Len(t, k.redeclared, 1)
		down := errors.New("no connection")
		k.broker.set(func() { k.broker.fail = down })
		require.ErrorIs(t, k.Redeclare(t.Context()), down)
		require.Equal(t, 1, restored())
		require.Equal(t, delayer.RedeclareEvent{Backend: "test", Err: down}, k.redeclared[1])
		k.broker.set(func() { k.broker.fail = nil })
		time.Sleep(firstPause)
		require.NoError(t, k.Ensure(t.Context()))
		require.Equal(t, 1, restored(), "again: the first attempt failed")
	})
}

func TestKeeper_OneDeclaresForAll(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		declared := func(act func()) int {
			before, _, _ := k.broker.counts()
			act()
			synctest.Wait()
			after, _, _ := k.broker.counts()
			return after - before
		}
		require.Equal(t, 2, declared(func() {
			k.doubts.Add(1)
			for range 10 {
				go func() { require.NoError(t, k.Ensure(t.Context())) }()
			}
		}), "the topology once, and the bindings on use once")
		require.Zero(t, declared(func() { require.NoError(t, k.Renew(t.Context(), time.Second)) }), "declared less than a second ago")
		time.Sleep(time.Second)
		require.Equal(t, 2, declared(func() { require.NoError(t, k.Renew(t.Context(), time.Second)) }))
	})
}

// TestKeeper_FailingForCallers: thousands of messages are published meanwhile.
func TestKeeper_FailingForCallers(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		k.broker.set(func() { k.broker.has, k.broker.fail = false, errForbidden })
		k.Doubt()
		const minutes, each = 10, 50 * time.Millisecond
		attempts := k.attempts(func() {
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
		})
		require.LessOrEqual(t, attempts, minutes*int(time.Minute/callersPause)+minutes)
		require.Len(t, k.deleted, 1, "each loss is told once")
		require.LessOrEqual(t, k.lines("cannot check the topology"), minutes+1)
		k.broker.set(func() { k.broker.fail = nil })
		time.Sleep(callersPause)
		require.NoError(t, k.Ensure(t.Context()), "at most five seconds after it is fixed")
	})
}

// TestKeeper_SharedErrorIsACopy: each caller adds its destination to its error.
func TestKeeper_SharedErrorIsACopy(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		k.broker.set(func() { k.broker.fail = errForbidden })
		var first, second, third *delayer.Error
		require.ErrorAs(t, k.Redeclare(t.Context()), &first)
		require.ErrorAs(t, k.Ensure(t.Context()), &second)
		require.NotSame(t, first, second)
		first.Object, second.Object = "its own", "its own"
		require.ErrorAs(t, k.Ensure(t.Context()), &third)
		require.NotEqual(t, "its own", third.Object)
	})
}

// TestKeeper_SlowDeclaration takes longer than any caller waits. It is not begun anew with each.
func TestKeeper_SlowDeclaration(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		k.broker.set(func() { k.broker.slow, k.broker.declares = 8*time.Second, 0 })
		k.Reconnected()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			require.ErrorIs(t, k.Ensure(ctx), delayer.ErrNotSent)
			cancel()
		}
		require.NoError(t, k.Ensure(t.Context()))
		declares, _, _ := k.broker.counts()
		require.Equal(t, 1, declares)
		k.Wait()
	})
}

// TestKeeper_Reconnected: what failed for long is tried again soon. If the broker refuses each
// time, that costs it no more than an attempt a second.
func TestKeeper_Reconnected(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		k.broker.set(func() { k.broker.has, k.broker.fail = false, errForbidden })
		k.Doubt()
		time.Sleep(20 * time.Minute)
		const during = time.Minute
		require.LessOrEqual(t, k.attempts(func() {
			for range during / (10 * time.Millisecond) {
				k.Reconnected()
				_ = k.Redeclare(t.Context())
				time.Sleep(10 * time.Millisecond)
			}
		}), 2*int(during/firstPause)+1)
		k.broker.set(func() { k.broker.fail = nil })
		k.Reconnected()
		time.Sleep(firstPause)
		synctest.Wait()
		has, _ := k.broker.state()
		require.True(t, has)
	})
}

// TestKeeper_Conflict: a queue of ours has a stranger's arguments. Nothing is missing.
func TestKeeper_Conflict(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		k.broker.set(func() { k.broker.fail = errOther })
		time.Sleep(lookEvery)
		synctest.Wait()
		require.ErrorIs(t, k.Ensure(t.Context()), delayer.ErrConflict)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.ErrorIs(t, k.Ensure(t.Context()), delayer.ErrConflict)
		require.ErrorIs(t, k.redeclared[0].Err, delayer.ErrConflict)
		require.LessOrEqual(t, k.lines("has other arguments"), 12)
		k.broker.set(func() { k.broker.fail = nil })
		time.Sleep(lookEvery)
		synctest.Wait()
		require.NoError(t, k.Ensure(t.Context()))
		require.NoError(t, k.redeclared[len(k.redeclared)-1].Err)
	})
}

// TestKeeper_MayNotDeclare: a user who lost the permission to declare may still publish to what is
// there.
func TestKeeper_MayNotDeclare(t *testing.T) {
	keep(t, func(t *testing.T, k *kept) {
		k.broker.set(func() { k.broker.fail = errForbidden })
		require.LessOrEqual(t, k.attempts(func() { time.Sleep(10 * lookEvery) }), 20)
		require.NoError(t, k.Ensure(t.Context()))
		require.Positive(t, k.lines("cannot check the topology"))
	})
}
