package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/engine"
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

func TestForgotten(t *testing.T) {
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
		{"p.serve.queue.orders", 2, false},
		{"p.serve.queue.orders", 0, true},
	} {
		require.Equal(t, c.want, forgotten("p", apiQueue{Name: c.name, Ready: 1, Consumers: c.consumers}), "%s, %d consumers", c.name, c.consumers)
	}
	require.False(t, forgotten("p", apiQueue{Name: "p.x"}))
	require.False(t, forgotten("p", apiQueue{Name: "p.x", Held: 1, Exclusive: true}))
	require.True(t, forgotten("p", apiQueue{Name: "p.x", Held: 1}))
}

// TestReader_Others: what another Delayer's prefix begins with is not ours, and an API that does not
// answer leaves all of it unknown.
func TestReader_Others(t *testing.T) {
	queues := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/queues") && r.FormValue("name") == "p.":
			_, _ = w.Write([]byte(`{"items": [` + queues + `], "page_count": 1}`))
		case strings.HasPrefix(r.URL.Path, "/api/queues"):
			_, _ = w.Write([]byte(`{"items": [], "page_count": 1}`))
		default:
			_, _ = w.Write([]byte(`[]`))
		}
	}))
	t.Cleanup(api.Close)
	cfg := backend.Config{Backend: "binaryladder", Options: delayer.Options{
		URL: "amqp://u:p@localhost/", Prefix: "p", Management: strings.Replace(api.URL, "//", "//u:p@", 1),
	}}
	settings, err := engine.Resolve(cfg.Options, cfg.Backend)
	require.NoError(t, err)
	r := &Reader{cfg: Config{Backend: cfg}, settings: settings, parts: []part{{name: cfg.Backend, configured: true}}}
	r.api, r.vhost, err = settings.API()
	require.NoError(t, err)
	for given, want := range map[string][]Queue{
		`{"name": "p.old", "messages_ready": 3}`: {{Name: "p.old", Messages: 3}},
		`{"name": "p.misrouted"}, {"name": "p.mail.misrouted"}, {"name": "p.mail.ladder.wait.1h", "messages_ready": 3}`: {},
	} {
		queues = given
		var s Status
		r.readAPI(t.Context(), &s, nil)
		require.Empty(t, s.Unknown)
		require.Equal(t, []string{}, s.Policies)
		require.Equal(t, []string{}, s.Bindings)
		require.Equal(t, []Queue{}, s.Parked)
		require.Equal(t, want, s.Others)
	}
	api.Close()
	var s Status
	r.readAPI(t.Context(), &s, nil)
	require.Len(t, s.Unknown, 4)
	require.Nil(t, s.Policies)
	require.Nil(t, s.Bindings)
	require.Nil(t, s.Parked)
	require.Nil(t, s.Others)
}

func TestReadCounts(t *testing.T) {
	held := func(level int, number int64, c bundle.Count) bundle.TurnCount {
		return bundle.TurnCount{Turn: bundle.Turn{Level: level, Number: number}, Count: c}
	}
	four, hours := noon.UnixMilli()/4000, noon.UnixMilli()/(8*3600*1000)
	written := bundle.Counts{
		At: due(0), Held: bundle.Count{Bundles: 1, Exact: true},
		Turns: []bundle.TurnCount{
			held(0, four+1, bundle.Count{Bundles: 2, Messages: 3, Exact: true, First: due(4 * time.Second), Last: due(5 * time.Second)}),
			held(5, hours, bundle.Count{Bundles: 4, Messages: 5, Changes: 6}),
		},
	}
	got, err := readCounts(written.Bytes())
	require.NoError(t, err)
	early := time.UnixMilli(hours * 8 * 3600 * 1000).UTC()
	require.Equal(t, counts{at: noon, held: written.Held, turns: []turn{
		{early, early.Add(8 * time.Hour), written.Turns[1].Count},
		{noon.Add(4 * time.Second), noon.Add(8 * time.Second), written.Turns[0].Count},
	}}, got)
	require.Equal(t, bundle.Count{Bundles: 7, Messages: 8, Changes: 6}, got.total())

	for name, of := range map[string]bundle.TurnCount{
		"a level too many": held(6, 1, bundle.Count{}), "before 1970": held(0, -1, bundle.Count{}), "after all times": held(5, 1<<40, bundle.Count{}),
	} {
		_, err := readCounts((&bundle.Counts{Turns: []bundle.TurnCount{of}}).Bytes())
		require.EqualError(t, err, "it tells of slots that this version does not have", name)
	}
	_, err = readCounts([]byte("Hello, world"))
	require.ErrorIs(t, err, bundle.ErrForeign)
}

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
