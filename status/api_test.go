package status

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForgotten(t *testing.T) {
	const hash = "1c168adb00d208e4"
	for _, c := range []struct {
		name      string
		consumers int
		want      bool
	}{
		{"p.ladder.wait.7s", 0, true},
		{"p.ladder.wait.7s", 1, true},
		{"p.mail.parked", 0, false},
		{"p.serve.parked.orders", 0, false},
		{"p.serve.queue.orders.parked.", 0, true},
		{"px.ladder.wait.7s", 0, false},
		{"p.migration." + hash, 0, false}, // the record of a migration: one message, from prepare to retire
		{"p.serve.queue.orders", 2, false},
		{"p.serve.queue.orders", 0, true},
		{"p.migration.evacuated", 1, false},
		{"p.migration.evacuated", 0, true},
		{"p.migration.refused", 0, true},
	} {
		require.Equal(t, c.want, forgotten("p", apiQueue{Name: c.name, Ready: 1, Consumers: c.consumers}), "%s, %d consumers", c.name, c.consumers)
	}
	require.False(t, forgotten("p", apiQueue{Name: "p.x"}))
	require.False(t, forgotten("p", apiQueue{Name: "p.x", Held: 1, Exclusive: true}))
	require.True(t, forgotten("p", apiQueue{Name: "p.x", Held: 1}))
}
