package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

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
