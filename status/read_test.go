package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
)

// TestDescribe_Controllers: those that stand by count.
func TestDescribe_Controllers(t *testing.T) {
	for _, c := range []struct {
		cfg       controller.Config
		consumers map[string]int
		want      int
	}{
		{controller.Config{}, map[string]int{role.Intake: 1, role.Candidates: 2}, 2},
		{controller.Config{}, map[string]int{role.Intake: 0, role.Candidates: 0}, 0},
		{controller.Config{Wheel: controller.Rounds}, map[string]int{role.Intake: 3}, 3},
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
