package evacuate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/node"
)

// TestFitting_Soon: a batch waits while the one before it is published. What is due soon by then
// stays in the plugin, and comes once.
func TestFitting_Soon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{Job: Job{Leave: time.Minute}, clocks: map[string]node.Clock{"rabbit@a": {Node: 1000, Local: time.Now()}}}
		time.Sleep(30 * time.Second)
		due := int64(1000) + (89 * time.Second).Milliseconds()
		require.Empty(t, r.fitting("rabbit@a", []node.Row{{ID: "soon", Due: due}}))
		require.Empty(t, r.account.Left)
	})
}
