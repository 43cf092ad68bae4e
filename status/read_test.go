package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// TestDescribe_Controllers: those that stand by count, and a shard that lacks one counts.
func TestDescribe_Controllers(t *testing.T) {
	for _, c := range []struct {
		cfg       controller.Config
		consumers map[string]int
		want      int
	}{
		{controller.Config{}, map[string]int{"intake": 1, "candidates": 2}, 2},
		{controller.Config{}, map[string]int{"intake": 0, "candidates": 0}, 0},
		{controller.Config{Shards: 2}, map[string]int{"0.intake": 1, "0.candidates": 3, "1.intake": 1, "1.candidates": 2}, 2},
		{controller.Config{Wheel: controller.Rounds}, map[string]int{"intake": 3}, 3},
	} {
		plan, err := backend.Topology(backend.Config{Backend: controller.Name, Controller: c.cfg})
		require.NoError(t, err)
		states := map[string]objects.State{}
		for name, n := range c.consumers {
			states["delayer.controller."+name] = objects.State{Consumers: n}
		}
		b, _ := describe(part{name: controller.Name, plan: plan}, states)
		require.Equal(t, c.want, *b.Controllers, "%+v", c)
	}
}
