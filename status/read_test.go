package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// TestDescribe_Controllers: those that stand by count.
func TestDescribe_Controllers(t *testing.T) {
	for _, c := range []struct {
		cfg       controller.Config
		consumers map[topology.Role]int
		want      int
	}{
		{controller.Config{}, map[topology.Role]int{topology.Intake: 1, topology.Candidates: 2}, 2},
		{controller.Config{}, map[topology.Role]int{topology.Intake: 0, topology.Candidates: 0}, 0},
		{controller.Config{Wheel: controller.Rounds}, map[topology.Role]int{topology.Intake: 3}, 3},
	} {
		plan, err := backend.Topology(backend.Config{Backend: controller.Name, Controller: c.cfg})
		require.NoError(t, err)
		states := map[string]objects.State{}
		for _, q := range plan.Queues {
			if n, is := c.consumers[q.Role]; is {
				states[q.Name] = objects.State{Consumers: n}
			}
		}
		b, _ := describe(part{name: controller.Name, plan: plan}, states)
		require.Equal(t, c.want, *b.Controllers, "%+v", c)
	}
}
