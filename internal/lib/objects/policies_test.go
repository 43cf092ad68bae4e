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
