package assess

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
)

// TestConflicts_DelayerAtWork: what a Delayer has declared is in nobody's way.
func TestConflicts_DelayerAtWork(t *testing.T) {
	for _, name := range backend.Names() {
		plan, err := backend.Topology(backend.Config{Backend: name})
		require.NoError(t, err)
		q := Question{Topology: plan}
		for _, x := range plan.AllExchanges() {
			q.Exchanges = append(q.Exchanges, inventory.Exchange{Name: x.Name, Type: x.Kind, Durable: true, AutoDelete: x.AutoDelete, Arguments: x.Args()})
		}
		for _, queue := range plan.Queues {
			q.Queues = append(q.Queues, inventory.Queue{Name: queue.Name, Arguments: queue.Args})
		}
		assert.Empty(t, conflicts(q), name)
	}
}
