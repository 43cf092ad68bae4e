package ttl

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// queues are a ladder of two steps.
func queues() Queues {
	return Queues{
		Stage: delivery.NewStage("p", true), Enter: "p.enter",
		Steps:    Steps{Tick: time.Second, Waits: []time.Duration{time.Second, 2 * time.Second}},
		Queue:    func(d time.Duration) string { return "p.wait." + objects.DurationName(d) },
		Exchange: func(d time.Duration) string { return "p.step." + objects.DurationName(d) },
	}
}

func TestQueues_Leaving(t *testing.T) {
	s := &strategy{queues: queues()}
	on := topology.Binding{Source: "p.step.2s", Key: "~d:2s>1s.", Target: "p.wait.1s"}
	out := topology.Binding{Source: "p.step.1s", Key: "~d:1s>end.", Target: "p.delivery", ToExchange: true}
	past := topology.Binding{Source: "p.step.2s", Key: "~d:2s>end.", Target: "p.delivery", ToExchange: true}
	require.Equal(t, []topology.Binding{past, on}, s.Leaving("p.wait.2s", 2).Bindings)
	require.Equal(t, []topology.Binding{out}, s.Leaving("p.wait.1s", 2).Bindings)
	require.Empty(t, s.Leaving("p.wait.3s", 2))

	s.queues.Exchange = nil // the queues' dead-lettering leads on
	require.Empty(t, s.Leaving("p.wait.2s", 2))
	require.Equal(t, topology.Binding{Source: "p.enter", Key: "~d:>2s..", Target: "p.wait.2s"}, s.queues.binding(link{outside, 1}, 3))
}

// TestQueues_Links: each has a key of its own, within what Growth says.
func TestQueues_Links(t *testing.T) {
	q := queues()
	q.Steps.Waits = nil
	for i := range 40 {
		q.Steps.Waits = append(q.Steps.Waits, time.Millisecond<<i)
	}
	for _, linked := range []bool{true, false} {
		growth := (&strategy{queues: q}).Growth()
		keys := map[string]link{}
		n := len(q.Steps.Waits)
		for _, k := range q.all() {
			key := q.key(k, 1)
			require.NotContains(t, keys, key)
			require.NotContains(t, key, ".")
			require.LessOrEqual(t, len(key), growth.KeySize)
			keys[key] = k
		}
		require.Equal(t, 2, strings.Count(q.key(link{outside, 0}, 3), "."), "as many words as asked for")
		if linked {
			require.Len(t, keys, n*(n-1)/2+2*n)
		} else {
			require.Len(t, keys, n)
		}
		q.Exchange = nil
	}
}
