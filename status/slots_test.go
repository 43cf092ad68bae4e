package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// slots is a backend with so many controllers, and so many bundles that are ready in the log.
func slots(controllers, ready int) Backend {
	waiting := ready
	return Backend{Controllers: &controllers, Unread: &ready, Waiting: &waiting}
}

// slot holds n, and its turn begins after noon by so much.
func slot(begin, width time.Duration, n bundle.Count) turn {
	return turn{noon.Add(begin), noon.Add(begin + width), n}
}

// due is a time after noon.
func due(later time.Duration) brokertime.Due { return brokertime.Due(noon.Add(later).UnixMilli()) }

func exactly(n int) bundle.Count { return bundle.Count{Bundles: 1, Messages: n, Exact: true} }

// TestCount: what a controller has counted is exact, but for what has come since.
func TestCount(t *testing.T) {
	held := exactly(5)
	held.Bundles = 3
	counted := counts{at: noon, held: held, turns: []turn{slot(4*time.Second, 4*time.Second, exactly(600))}}
	changed, vague := counted, counted
	changed.turns = []turn{slot(time.Hour, time.Hour, bundle.Count{Messages: 7, Changes: 2, Exact: true})}
	vague.turns = []turn{slot(time.Hour, time.Hour, bundle.Count{Messages: 7})} // the bundle that is there is not counted
	for name, c := range map[string]struct {
		counts             counts
		controllers, ready int
		waiting, unread    int
		changes            int
		inexact            bool
	}{
		"all is read":                               {counted, 1, 0, 605, 0, 0, false},
		"two bundles are not read":                  {counted, 1, 2, 607, 2, 0, false},
		"the controller has given back what it had": {counted, 0, 3, 605, 0, 0, false},
		"and two have come since":                   {counted, 0, 5, 607, 2, 0, false},
		"which has delivered it since":              {counted, 0, 1, 600, 0, 0, true},
		"or some of it":                             {counted, 0, 2, 601, 0, 0, true},
		"some may be cancelled":                     {changed, 1, 0, 12, 0, 2, false},
		"a controller was lost":                     {vague, 1, 0, 13, 0, 0, true},
		"nothing waits":                             {counts{at: noon, held: exactly(0)}, 1, 0, 0, 0, 0, false},
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
	b.count(counted, noon)
	require.Empty(t, b.Due, "all slots are empty")

	b = slots(1, 0)
	b.count(counts{held: exactly(1)}, noon)
	require.Nil(t, b.Counted, "the controller did not know the time")
	require.Equal(t, []Due{{From: noon, To: noon.Add(time.Millisecond), Messages: 1}}, b.Due)
}

func TestDueTimes(t *testing.T) {
	at := func(t turn, first, last time.Duration) turn {
		t.First, t.Last = due(first), due(last)
		return t
	}
	counted := counts{at: noon, held: exactly(3), turns: []turn{
		at(slot(-32*time.Second, 32*time.Second, exactly(4)), -20*time.Second, -6*time.Second),
		slot(-8*time.Second, 4*time.Second, exactly(8)), slot(-4*time.Second, 4*time.Second, exactly(0)),
		at(slot(20*time.Minute, 20*time.Minute, exactly(32)), 21*time.Minute, 21*time.Minute), slot(8*time.Hour, 8*time.Hour, exactly(16)),
		at(slot(-8*time.Hour, 8*time.Hour, exactly(2)), -time.Hour, time.Minute),
	}}
	between := func(from, to time.Duration, n, overdue int) Due {
		return Due{From: noon.Add(from), To: noon.Add(to), Messages: n, Overdue: overdue}
	}
	const ms = time.Millisecond
	list := dueTimes(counted, noon)
	require.Equal(t, []Due{
		between(-time.Hour, time.Minute+ms, 2, 1), between(-20*time.Second, -6*time.Second+ms, 4, 4), between(-8*time.Second, -4*time.Second, 8, 1),
		between(0, ms, 3, 0), between(21*time.Minute, 21*time.Minute+ms, 32, 0), between(8*time.Hour, 16*time.Hour, 16, 0),
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
		b.count(counts{at: noon, turns: []turn{slot(4*time.Second, 4*time.Second, exactly(9))}}, noon.Add(c.later))
		n, _ := b.Overdue()
		require.Equal(t, c.want, *n, name)
		require.Equal(t, c.later > 2*time.Minute, b.Stale(noon.Add(c.later)), name)
	}
}
