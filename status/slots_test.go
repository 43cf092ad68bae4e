package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// slots is a backend with so many controllers, and so many bundles that are ready in the log.
func slots(controllers, ready int) Backend {
	waiting := ready
	return Backend{Controllers: &controllers, Unread: &ready, Waiting: &waiting}
}

// turn is what a slot holds whose turn begins after noon by so much.
func turn(begin, width time.Duration, n controller.Count) controller.Turn {
	return controller.Turn{Begin: noon.Add(begin), End: noon.Add(begin + width), Count: n}
}

func exactly(n int) controller.Count { return controller.Count{Bundles: 1, Messages: n, Exact: true} }

// TestCount: what a controller has counted is exact, but for what has come since.
func TestCount(t *testing.T) {
	held := exactly(5)
	held.Bundles = 3
	counts := controller.Counts{At: noon, Held: held, Turns: []controller.Turn{turn(4*time.Second, 4*time.Second, exactly(600))}}
	changed, vague := counts, counts
	changed.Turns = []controller.Turn{turn(time.Hour, time.Hour, controller.Count{Messages: 7, Changes: 2, Exact: true})}
	vague.Turns = []controller.Turn{turn(time.Hour, time.Hour, controller.Count{Messages: 7})}
	for name, c := range map[string]struct {
		counts             controller.Counts
		controllers, ready int
		waiting, unread    int
		changes            int
		inexact            bool
	}{
		"all is read":                               {counts, 1, 0, 605, 0, 0, false},
		"two bundles are not read":                  {counts, 1, 2, 607, 2, 0, false},
		"the controller has given back what it had": {counts, 0, 3, 605, 0, 0, false},
		"and two have come since":                   {counts, 0, 5, 607, 2, 0, false},
		"which has delivered it since":              {counts, 0, 1, 600, 0, 0, true},
		"or some of it":                             {counts, 0, 2, 601, 0, 0, true},
		"some may be cancelled":                     {changed, 1, 0, 12, 0, 2, false},
		"a controller was lost":                     {vague, 1, 0, 12, 0, 0, true},
		"nothing waits":                             {controller.Counts{At: noon, Held: exactly(0)}, 1, 0, 0, 0, 0, false},
	} {
		b := slots(c.controllers, c.ready)
		b.Queues = []Queue{{Intake: true, Messages: c.ready}, {Messages: 1}}
		b.count(c.counts, noon.Add(time.Second))
		require.Equal(t, c.waiting, *b.Waiting, name)
		require.Equal(t, c.unread, *b.Unread, name)
		require.Equal(t, c.changes, b.Changes, name)
		require.Equal(t, c.inexact, b.Inexact, name)
		require.Equal(t, noon, *b.Counted, name)
	}
	b := slots(0, 1)
	b.count(counts, noon)
	require.Empty(t, b.Due, "all slots are empty")

	b = slots(1, 0)
	b.count(controller.Counts{Held: exactly(1)}, noon)
	require.Nil(t, b.Counted, "the controller did not know the time")
	require.Equal(t, []Due{{From: noon, To: noon.Add(time.Millisecond), Messages: 1}}, b.Due)
}

func TestDueTimes(t *testing.T) {
	at := func(t controller.Turn, first, last time.Duration) controller.Turn {
		t.First, t.Last = noon.Add(first), noon.Add(last)
		return t
	}
	counts := controller.Counts{At: noon, Held: exactly(3), Turns: []controller.Turn{
		at(turn(-32*time.Second, 32*time.Second, exactly(4)), -20*time.Second, -6*time.Second),
		turn(-8*time.Second, 4*time.Second, exactly(8)), turn(-4*time.Second, 4*time.Second, exactly(0)),
		at(turn(20*time.Minute, 20*time.Minute, exactly(32)), 21*time.Minute, 21*time.Minute), turn(8*time.Hour, 8*time.Hour, exactly(16)),
		at(turn(-8*time.Hour, 8*time.Hour, exactly(2)), -time.Hour, time.Minute),
	}}
	due := func(from, to time.Duration, n, overdue int) Due {
		return Due{From: noon.Add(from), To: noon.Add(to), Messages: n, Overdue: overdue}
	}
	const ms = time.Millisecond
	list := dueTimes(counts, noon)
	require.Equal(t, []Due{
		due(-time.Hour, time.Minute+ms, 2, 1), due(-20*time.Second, -6*time.Second+ms, 4, 4), due(-8*time.Second, -4*time.Second, 8, 1),
		due(0, ms, 3, 0), due(21*time.Minute, 21*time.Minute+ms, 32, 0), due(8*time.Hour, 16*time.Hour, 16, 0),
	}, list)
	n, since := Backend{Due: list}.Overdue()
	require.Equal(t, 6, *n)
	require.Equal(t, noon.Add(-time.Hour), since)
	n, _ = Backend{Due: []Due{}}.Overdue()
	require.Zero(t, *n)
	n, _ = Backend{}.Overdue()
	require.Nil(t, n)
}

// TestOverdue_SinceCounted: what came due since a controller counted is delivered, if one is at work
// and counts.
func TestOverdue_SinceCounted(t *testing.T) {
	for name, c := range map[string]struct {
		controllers int
		later       time.Duration
		want        int
	}{
		"a controller counts":           {1, time.Minute, 0},
		"no controller is there":        {0, time.Minute, 9},
		"a controller counts no more":   {1, 3 * time.Minute, 9},
		"no controller, nothing is due": {0, time.Second, 0},
	} {
		b := slots(c.controllers, 0)
		b.Queues = []Queue{{Messages: 1}}
		b.count(controller.Counts{At: noon, Turns: []controller.Turn{turn(4*time.Second, 4*time.Second, exactly(9))}}, noon.Add(c.later))
		n, _ := b.Overdue()
		require.Equal(t, c.want, *n, name)
		require.Equal(t, c.later > 2*time.Minute, b.Stale(noon.Add(c.later)), name)
	}
}
