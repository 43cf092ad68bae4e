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

// slowAPI knows the policies of a queue some time after it was declared, as RabbitMQ before 4.0.
type slowAPI struct{ knows time.Time }

// RoundTrip implements [http.RoundTripper].
func (a *slowAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"items":[],"page_count":1}`
	if strings.Contains(r.URL.Path, "/queues/") {
		body = `{"items":[{"name":"p.wait"}],"page_count":1}`
		if time.Now().After(a.knows) {
			body = `{"items":[{"name":"p.wait","effective_policy_definition":{"expires":1}}],"page_count":1}`
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestProblems_WaitsForTheAPI: a queue whose policies are not known yet is not one without
// policies. A wait that was in vain is not repeated until they were known.
func TestProblems_WaitsForTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{}
		m, err := NewPolicyAPI("http://u:p@h", "/", api)
		require.NoError(t, err)
		look := func(knowsAfter time.Duration) (found int, took time.Duration) {
			began := time.Now()
			api.knows = began.Add(knowsAfter)
			problems, err := m.Problems(t.Context(), "p", topology.Plan{Queues: []topology.Queue{{Name: "p.wait"}}})
			require.NoError(t, err)
			return len(problems), time.Since(began)
		}
		for _, c := range []struct {
			knowsAfter time.Duration
			found      int
			atMost     time.Duration
		}{
			{0, 1, time.Second},
			{5 * time.Second, 1, 6 * time.Second},
			{time.Hour, 0, 16 * time.Second},
			{time.Hour, 0, 0},
			{-1, 1, 0},
			{5 * time.Second, 1, 6 * time.Second}, // it is waited for again
		} {
			found, took := look(c.knowsAfter)
			require.Equal(t, c.found, found, c)
			require.LessOrEqual(t, took, c.atMost, c)
		}
	})
}

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
