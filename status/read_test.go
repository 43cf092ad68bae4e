package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// TestDescribe_Controllers: those that stand by count.
func TestDescribe_Controllers(t *testing.T) {
	for _, c := range []struct {
		cfg       controller.Config
		consumers map[string]int
		want      int
	}{
		{controller.Config{}, map[string]int{"intake": 1, "candidates": 2}, 2},
		{controller.Config{}, map[string]int{"intake": 0, "candidates": 0}, 0},
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

func TestDueTimes(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	from := func(begin, width time.Duration) controller.Turn {
		return controller.Turn{Begin: noon.Add(begin), End: noon.Add(begin + width)}
	}
	holds := func(n int) objects.State { return objects.State{Messages: n} }
	list := dueTimes(map[string]controller.Turn{
		"overdue": from(-6*time.Second, 2*time.Second), "older": from(-time.Minute, 2*time.Second), "empty": from(0, 2*time.Second),
		"this": from(0, 2*time.Second), "next": from(4*time.Second, 2*time.Second), "minute": from(0, time.Minute),
		"hour": from(0, time.Hour), "day": from(12*time.Hour, 24*time.Hour), "not declared": from(0, 2*time.Second),
	}, map[string]objects.State{
		"overdue": holds(1), "older": holds(2), "empty": {}, "this": holds(4), "next": holds(8), "minute": holds(16), "hour": holds(32), "day": holds(64),
		"intake": holds(128),
	}, noon)
	due := func(begin, width time.Duration, n int) Due {
		return Due{From: noon.Add(begin), To: noon.Add(begin + width), Messages: n}
	}
	require.Equal(t, []Due{
		due(-time.Minute, 2*time.Second, 2), due(-6*time.Second, 2*time.Second, 1),
		due(0, time.Minute, 28), due(0, time.Hour, 32), due(12*time.Hour, 24*time.Hour, 64),
	}, list)
	n, since := Backend{Due: list}.Overdue(noon)
	require.Equal(t, 3, *n)
	require.Equal(t, noon.Add(-time.Minute), since)
	n, _ = Backend{Due: []Due{}}.Overdue(noon)
	require.Zero(t, *n)
	n, _ = Backend{}.Overdue(noon)
	require.Nil(t, n)
}
