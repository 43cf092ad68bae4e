package objects

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/topology"
)

// asked answers every question, and notes those for exchanges.
type asked struct {
	exchanges []string
	harmed    bool // a policy applies to the exchange of the plugin
}

// RoundTrip implements [http.RoundTripper].
func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, `{"items":[],"page_count":1}`
	if name, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/exchanges/%2F"); ok {
		a.exchanges = append(a.exchanges, name)
		status, body = http.StatusNotFound, `{}`
		if name == "/p.in" || name == "/p.plugin" && a.harmed {
			status, body = http.StatusOK, `{"name":"x","policy":"all"}`
		}
	}
	if strings.HasPrefix(r.URL.Path, "/api/policies/") {
		body = `{"definition":{"alternate-exchange":"other"}}`
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestProblems_ListsNoExchanges: a list would make the broker count what waits in the plugin.
func TestProblems_ListsNoExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &asked{}
		m, err := NewPolicyAPI("http://u:p@h", "/", api)
		require.NoError(t, err)
		p := topology.Plan{Exchanges: []topology.Exchange{
			{Name: "p.in"}, {Name: "p.gone"}, {Name: "p.plugin", DelayedKind: "direct"}, {Name: "p.safe", Alternate: "p.unroutable"},
		}}
		look := func(problems int, want ...string) {
			api.exchanges = nil
			found, err := m.Problems(t.Context(), "p", p)
			require.NoError(t, err)
			require.Len(t, found, problems)
			require.Equal(t, want, api.exchanges)
		}
		look(1, "/p.in", "/p.gone", "/p.plugin")
		look(1, "/p.in", "/p.gone")
		time.Sleep(10 * time.Minute)
		api.harmed = true
		for range 2 {
			look(2, "/p.in", "/p.gone", "/p.plugin")
		}
		api.harmed = false
		look(1, "/p.in", "/p.gone", "/p.plugin")
		look(1, "/p.in", "/p.gone")
	})
}
