package inventory

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
)

// api answers by path; what it does not know is 404.
func api(t *testing.T, vhost string, answers map[string]string) *API {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, _, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/api/"), "?")
		answer, known := answers[path]
		switch {
		case answer == "401":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"not_authorised","reason":"Not administrator user"}`))
		case answer == "500":
			w.WriteHeader(http.StatusInternalServerError)
		case !known:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(answer))
		}
	}))
	t.Cleanup(server.Close)
	return open(t, server.URL, vhost)
}

// open returns an API of a server.
func open(t *testing.T, url, vhost string) *API {
	t.Helper()
	const noTimeout = 0
	client, err := management.New(strings.Replace(url, "://", "://mon:hunter2@", 1), noTimeout, &http.Transport{})
	require.NoError(t, err)
	return New(client, vhost)
}

func TestMissing(t *testing.T) {
	a := api(t, "/", map[string]string{"exchanges/%2F/amq.direct": `{}`})
	_, err := a.Definition(t.Context(), "x y")
	require.ErrorIs(t, err, delayer.ErrUnroutable)
	require.ErrorContains(t, err, `exchange "x y": unroutable: it does not exist in vhost "/"`)

	a = api(t, "gone", nil)
	_, err = a.Definition(t.Context(), "x")
	require.ErrorContains(t, err, `vhost "gone"`)
	_, err = a.Exchanges(t.Context())
	require.ErrorContains(t, err, `it does not exist at http://127.0.0.1`)
	require.ErrorContains(t, err, `or user "mon" may not see it`)
	require.NotContains(t, err.Error(), "hunter2")
}

// TestLook: what only an administrator sees is an error that says so.
func TestLook(t *testing.T) {
	answers := map[string]string{
		"exchanges/%2F":                        `[{"name":"z","type":"direct"},{"name":"d","type":"x-delayed-message"}]`,
		"exchanges/%2F/amq.direct":             `{}`,
		"exchanges/%2F/d/bindings/source":      `[]`,
		"exchanges/%2F/d/bindings/destination": `[]`,
		"overview":                             `{"rabbitmq_version":"3.10.8","exchange_types":[{"name":"direct"}]}`,
		"nodes":                                `[{"name":"b","running":false},{"name":"a","running":true}]`,
		"feature-flags":                        `[{"name":"khepri_db","state":"disabled"}]`,
	}
	a := api(t, "/", answers)
	v, err := a.Look(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"d", "z"}, []string{v.Exchanges[0].Name, v.Exchanges[1].Name})
	require.Len(t, v.Delayed, 1)
	require.Equal(t, []Node{{"a", true}, {"b", false}}, v.Nodes)
	answers["feature-flags"] = "401"
	_, err = a.Look(t.Context())
	require.ErrorIs(t, err, delayer.ErrAccess)
	require.ErrorContains(t, err, "Not administrator user")
}

// TestLook_TablesGone: as seen on 4.0.5 after khepri_db was enabled while the plugin ran.
func TestLook_TablesGone(t *testing.T) {
	answers := map[string]string{
		"exchanges/%2F/amq.direct": `{}`, "exchanges/%2F": "500", "overview": `{"rabbitmq_version":"4.0.5"}`, "nodes": "[]",
		"feature-flags": `[{"name":"khepri_db","state":"disabled"}]`,
	}
	a := api(t, "/", answers)
	_, err := a.Look(t.Context())
	require.ErrorContains(t, err, "500")
	require.NotContains(t, err.Error(), "khepri")
	answers["feature-flags"] = `[{"name":"khepri_db","state":"enabled"}]`
	_, err = a.Look(t.Context())
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	require.ErrorContains(t, err, "khepri_db was enabled while the plugin ran")
}

// TestAPI_Silent: an API that takes connections and answers nothing is given up. Only where the
// broker may be scanning the plugin's table does that take as long as ctx.
func TestAPI_Silent(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		<-r.Context().Done()
	}))
	defer server.Close()
	a := open(t, server.URL, "/")
	a.Within = 50 * time.Millisecond
	require.ErrorIs(t, a.Reachable(t.Context()), context.DeadlineExceeded)
	_, err := a.bindings(t.Context(), "x", "source")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel := context.WithCancel(t.Context())
	<-asked
	<-asked
	go func() { <-asked; time.AfterFunc(4*a.Within, cancel) }()
	_, err = a.Exchanges(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
