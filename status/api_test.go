package status

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lib/engine"
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

// TestReader_Calm: what hardly changes is asked for again after a minute, and at once while
// something is wrong.
func TestReader_Calm(t *testing.T) {
	asked := map[string]int{}
	var mu sync.Mutex
	queues := `{"items": [], "page_count": 1}`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		what := strings.TrimPrefix(r.URL.Path, "/api/") + r.FormValue("name")
		asked[what]++
		switch {
		case what == "overview":
			_, _ = w.Write([]byte(`{}`))
		case strings.HasSuffix(what, "/p."):
			_, _ = w.Write([]byte(queues))
		case strings.HasPrefix(what, "queues"):
			_, _ = w.Write([]byte(`{"items": [], "page_count": 1}`))
		default:
			_, _ = w.Write([]byte(`[]`))
		}
	}))
	t.Cleanup(api.Close)
	cfg := backend.Config{Backend: "binaryladder", Options: delayer.Options{URL: "amqp://u:p@localhost/", Prefix: "p", Management: strings.Replace(api.URL, "//", "//u:p@", 1)}}
	settings, err := engine.Resolve(cfg.Options, cfg.Backend)
	require.NoError(t, err)
	r := &Reader{cfg: Config{Backend: cfg}, settings: settings, parts: []part{{name: cfg.Backend, configured: true}}}
	r.api, r.vhost, err = settings.API()
	require.NoError(t, err)
	read := func() (s Status, again map[string]int) {
		clear(asked)
		r.readAPI(t.Context(), &s, nil, r.askAPI(t.Context()))
		require.Empty(t, s.Unknown)
		require.Empty(t, s.Policies)
		require.NotNil(t, s.Policies)
		return s, maps.Clone(asked)
	}
	const policies, others, parked = "queues//p", "queues//p.", "queues//.parked"
	_, again := read()
	require.Equal(t, map[string]int{"overview": 1, "consumers//": 1, policies: 1, others: 1, parked: 1}, again)
	s, again := read()
	require.Equal(t, map[string]int{"overview": 1, "consumers//": 1, parked: 1}, again)
	require.Equal(t, []Queue{}, s.Others)

	r.calm = r.calm.Add(-calmFor)
	queues = `{"items": [{"name": "p.old", "messages_ready": 3}], "page_count": 1}`
	for range 2 {
		s, again = read()
		require.Equal(t, 1, again[policies])
		require.Equal(t, []Queue{{Name: "p.old", Messages: 3}}, s.Others)
	}
	queues = `{"items": [{"name": "p.misrouted"}, {"name": "p.mail.misrouted"}, {"name": "p.mail.ladder.wait.1h", "messages_ready": 3}], "page_count": 1}`
	s, _ = read()
	require.Empty(t, s.Others, "another Delayer's, whose prefix is p.mail")
}
