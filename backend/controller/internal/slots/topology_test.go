package slots

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
)

// TestWheel_Plan: names and keys are the protocol, no two queues share one, and each slot has one.
func TestWheel_Plan(t *testing.T) {
	w := New("/", "p", 0)
	slot := leader.Queue{Ring: 1, Index: 7}
	exchange, key := w.to(slot)
	require.Equal(t, []string{"p.controller.slot.32s.07", "p.controller.enter.slots", "~d:slot:32s-07", "p.controller.log", "p.controller.enter"},
		[]string{w.queue(slot), exchange, key, w.queue(leader.Log), w.enter()})
	require.Equal(t, "p:controller,log,slots="+leader.Default().String()+",quorum", w.config())
	require.Equal(t, "p.controller", w.Plan().Markers[0].Name, "that of rounds: another wheel is a conflict")
	queues := map[string]bool{}
	for _, q := range w.Plan().Queues {
		require.False(t, queues[q.Name], q.Name)
		queues[q.Name] = true
	}
	const most = 64
	require.LessOrEqual(t, len(queues), most)
	for _, q := range w.rings.Slots() {
		require.True(t, queues[w.queue(q)], w.queue(q))
	}
	keys := map[string]bool{}
	for _, b := range w.Plan().Bindings {
		at := b.Source + " " + b.Key
		require.False(t, keys[at] && b.Source == w.enterSlots(), "two queues get %s", at)
		keys[at] = true
	}
}
