package controller_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/status"
)

// A member is a Delayer with controllers. While no message is due, what it holds is the summons of
// each shard that it leads.
type member struct {
	delayer.Delayer
	held atomic.Int64
}

func (m *member) leads(shards int64) bool { return m.held.Load() == shards }

// TestShards: messages of all shards come, and what was cancelled does not, while leaders are
// spread over three processes, one is killed, and another ends.
func TestShards(t *testing.T) {
	t.Parallel()
	const shards = 3
	w := newWorkbench(t, delayer.Quorum)
	cfg := backend.Config{Options: w.opts, Backend: controller.Name, Controller: controller.Config{Shards: shards}}
	cfg.Management = rabbittest.Broker(t).Management()
	t.Cleanup(func() { rabbittest.Remove(t, cfg) })
	open := func() *member {
		m := &member{}
		with := cfg
		with.Observer.Held = func(e delayer.HeldEvent) { m.held.Add(int64(e.Messages)) }
		m.Delayer = rabbittest.Open(t, with)
		return m
	}
	settles := func(what string, so func() bool) {
		t.Helper()
		since := time.Now()
		require.Eventually(t, so, patience, 50*time.Millisecond, what)
		t.Logf("%s after %v", what, time.Since(since))
	}
	first := open()
	settles("one leads all", func() bool { return first.leads(shards) })
	for other, says := range map[int]string{0: "12h0m0s,quorum", 2: "12h0m0s,shards=2,quorum"} { // 0: the default
		conflicting := cfg
		conflicting.Controller.Shards = other
		_, err := backend.Open(t.Context(), conflicting)
		require.ErrorIs(t, err, delayer.ErrConflict)
		require.ErrorContains(t, err, says)
	}

	queue := w.queue()
	p, got := w.planner(first, queue), w.Consume(queue)
	p.half(30, 20*time.Second)
	second := open() // takes its share while these are held
	w.settle(got, p.messages)
	settles("two share them", func() bool { return first.leads(2) && second.leads(1) })

	child := startController(t, w.opts, shards)
	settles("three share them", func() bool { return first.leads(1) && second.leads(1) })
	r, err := status.Open(t.Context(), status.Config{Backend: cfg})
	require.NoError(t, err)
	settles("all three are counted", func() bool { // who has handed a shard over is a candidate again a moment later
		waiting, err := r.Read(t.Context())
		require.NoError(t, err)
		require.Empty(t, waiting.Backends[0].Missing)
		return *waiting.Backends[0].Controllers == 3
	})
	require.NoError(t, r.Close())

	a := newMessages()
	together(300, func(i int) { // all are in memory, a third of them in the child's
		w.publish(first, queue, a, fmt.Sprint(i), time.Duration(2000+10*i)*time.Millisecond)
	})
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	t.Logf("late by up to %v", slices.Max(w.settle(got, a)))
	settles("two share them again", func() bool { return first.held.Load()+second.held.Load() == shards })

	require.NoError(t, first.Close())
	settles("one leads again", func() bool { return second.leads(shards) })
	a = newMessages()
	for i := range 50 {
		w.publish(second, queue, a, fmt.Sprint(i), time.Duration(20*i)*time.Millisecond)
	}
	w.settle(got, a)
	if cfg.Management != "" {
		problems, err := backend.Verify(t.Context(), cfg)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
	require.NoError(t, second.Close())
}
