package slots

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
)

// TestWheel_Plan: names and keys are the protocol, no two queues share one, and each slot has a
// turn.
func TestWheel_Plan(t *testing.T) {
	w := New("p", 0)
	n, slot := w.names, wheel.Slot{Level: 1, Index: 7}
	require.Equal(t, []string{"p.controller.wait.1m.07", "~d:slot:1m-07", "p.controller.intake", "p.controller.enter"},
		[]string{n.queue(slot), n.slotKey(slot), n.queue(wheel.Intake), n.enter()})
	require.Equal(t, "p:controller,slots="+wheel.Default().String()+",quorum", w.config())
	queues := map[string]bool{}
	for _, q := range w.Plan().Queues {
		require.False(t, queues[q.Name], q.Name)
		queues[q.Name] = true
	}
	turns := w.Turns(time.Now())
	require.Len(t, turns, len(w.wheel.Slots()))
	for name := range turns {
		require.True(t, queues[name], name)
	}
	keys := map[string]bool{}
	for _, b := range w.Plan().Bindings {
		at := b.Source + " " + b.Key
		require.False(t, keys[at] && b.Source == w.names.enterSlots(), "two queues get %s", at)
		keys[at] = true
	}
}
