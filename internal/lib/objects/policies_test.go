package objects

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// slowAPI knows the policies of a queue some time after it was declared, as RabbitMQ before 4.0.
type slowAPI struct {
	knows    time.Time
	overview string
}

func (a *slowAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"items":[],"page_count":1}`
	if strings.HasSuffix(r.URL.Path, "/overview") {
		body = a.overview
	}
	if strings.Contains(r.URL.Path, "/queues/") {
		body = `{"items":[{"name":"p.wait"}],"page_count":1}`
		if time.Now().After(a.knows) {
			body = `{"items":[{"name":"p.wait","effective_policy_definition":{"expires":1}}],"page_count":1}`
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestProblems_WaitsForTheAPI: a queue whose policies are not known yet is not one without
// policies. Nobody waits for a broker that says that it keeps no statistics.
func TestProblems_WaitsForTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowAPI{}
		m, err := NewPolicyAPI("http://u:p@h", "/", api)
		require.NoError(t, err)
		look := func(knowsAfter time.Duration, overview string) (found string, took time.Duration) {
			began := time.Now()
			api.overview = overview
			api.knows = began.Add(knowsAfter)
			problems, err := m.Problems(t.Context(), "p", topology.Plan{Queues: []topology.Queue{{Name: "p.wait"}}})
			require.NoError(t, err)
			require.Len(t, problems, 1)
			return problems[0].Kind, time.Since(began)
		}
		for _, c := range []struct {
			knowsAfter time.Duration
			overview   string
			found      string
			atMost     time.Duration
		}{
			{0, `{}`, IsHarmed, time.Second},
			{5 * time.Second, `{"disable_stats":false}`, IsHarmed, 6 * time.Second},
			{time.Hour, `{}`, IsUnknown, 16 * time.Second},
			{time.Hour, `{"disable_stats":true}`, IsUnknown, 0},
		} {
			found, took := look(c.knowsAfter, c.overview)
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
		look(1, "/p.in", "/p.gone", "/p.plugin", "/p.safe")
		look(1, "/p.in", "/p.gone")
		time.Sleep(10 * time.Minute)
		api.harmed = true
		look(2, "/p.in", "/p.gone", "/p.plugin", "/p.safe")
		look(2, "/p.in", "/p.gone", "/p.plugin")
		api.harmed = false
		look(1, "/p.in", "/p.gone", "/p.plugin")
		look(1, "/p.in", "/p.gone")
	})
}

// monitored answers as the API does a user with the tag monitoring: no policy is shown.
type monitored struct{ queues string }

func (a monitored) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, `{"name":"p.in","policy":"all"}`
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/policies/"):
		status, body = http.StatusUnauthorized, `{"reason":"Not policymaker"}`
	case strings.HasPrefix(r.URL.Path, "/api/queues/") && a.queues == "":
		status, body = http.StatusInternalServerError, ``
	case strings.HasPrefix(r.URL.Path, "/api/queues/"):
		body = `{"items":[` + a.queues + `],"page_count":1}`
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestProblems_Unknown: what the API does not tell is unknown, and what it tells is not lost for it.
func TestProblems_Unknown(t *testing.T) {
	p := topology.Plan{Exchanges: []topology.Exchange{{Name: "p.in"}}, Queues: []topology.Queue{WaitingQueue("p.wait", delayer.Quorum, time.Minute, "p.in")}}
	for queues, want := range map[string][]string{
		"": {`the management API failed: Internal Server Error (the broker's log says why`},
		`{"name":"p.wait","policy":"of queues","effective_policy_definition":{"message-ttl":1}}`: {
			`exchange "p.in": policy "all" applies to it, and the user of management may not see`, `queue "p.wait": a policy sets message-ttl`,
		},
		`{"name":"p.wait","policy":"all","effective_policy_definition":{"message-ttl":1}}`:                             {`queue "p.wait": a policy sets message-ttl`},
		`{"name":"p.wait","policy":"all","effective_policy_definition":{"ha-mode":"all"}}`:                             nil,
		`{"name":"other","policy":"all","effective_policy_definition":{"alternate-exchange":"x","max-length":1}}`:      {`exchange "p.in": a policy sets alternate-exchange`},
		`{"name":"p.wait","policy":"other","effective_policy_definition":[]},{"name":"p.x","policy":"of an exchange"}`: {`exchange "p.in": policy "all" applies to it`},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, err := NewPolicyAPI("http://u:p@h", "/", monitored{queues})
			require.NoError(t, err)
			found, err := m.Problems(t.Context(), "p", p)
			require.NoError(t, err)
			require.Len(t, found, len(want), "%s: %v", queues, found)
			for i, text := range want {
				require.Contains(t, found[i].String(), text, queues)
			}
		})
	}
}

func plan() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: "p.in", Kind: amqp091.ExchangeDirect}, {Name: "p.delivery", Kind: amqp091.ExchangeDirect, Alternate: "p.unroutable"}, {Name: "p.plugin", DelayedKind: amqp091.ExchangeFanout}},
		Queues: []topology.Queue{
			WaitingQueue("p.wait", delayer.Quorum, time.Minute, "p.in"),
			WaitingQueue("p.classic", delayer.Classic, time.Minute, "p.in"),
			{Name: "p.unroutable", Args: amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1000)}},
			{Name: "p.tier", Args: amqp091.Table{"x-queue-type": "classic", "x-message-ttl": int64(5), "x-max-length": int64(10), "x-dead-letter-exchange": "p.in"}},
		},
	}
}

func TestHarm(t *testing.T) {
	for name, c := range map[string]struct {
		object, policy string
		want           []string
	}{
		"nothing":                      {"p.wait", `{}`, nil},
		"ttl":                          {"p.wait", `{"message-ttl": 60000}`, []string{`queue "p.wait": a policy sets message-ttl to 60000, which would make messages early`}},
		"ttl that is long enough":      {"p.wait", `{"message-ttl": 60001}`, nil},
		"ttl where there is none":      {"p.unroutable", `{"message-ttl": 1e12}`, []string{"lose messages"}},
		"expires":                      {"p.wait", `{"expires": 1000}`, []string{"delete the queue"}},
		"overflow, quorum":             {"p.wait", `{"overflow": "drop-head"}`, []string{"overflow to drop-head"}},
		"the same overflow":            {"p.wait", `{"overflow": "reject-publish"}`, nil},
		"overflow, classic":            {"p.classic", `{"overflow": "drop-head"}`, nil},
		"length":                       {"p.classic", `{"max-length": 1000000}`, []string{"max-length to 1e+06"}},
		"bytes":                        {"p.unroutable", `{"max-length-bytes": 5}`, []string{"max-length-bytes"}},
		"length of a tier":             {"p.tier", `{"max-length": 10}`, nil},
		"a smaller one":                {"p.tier", `{"max-length": 9}`, []string{"max-length"}},
		"dead-letter key":              {"p.classic", `{"dead-letter-routing-key": "x"}`, []string{"misroute"}},
		"dead-letter exchange":         {"p.wait", `{"dead-letter-exchange": "x", "dead-letter-strategy": "at-most-once"}`, nil},
		"the same on one without":      {"p.unroutable", `{"dead-letter-exchange": "x"}`, []string{"send copies"}},
		"delivery limit":               {"p.unroutable", `{"delivery-limit": 20}`, []string{"delivery-limit"}},
		"delivery limit, of no matter": {"p.wait", `{"delivery-limit": 20}`, nil},
		"two at once":                  {"p.wait", `{"message-ttl": 1, "expires": 5}`, []string{"message-ttl", "expires"}},
		"alternate":                    {"p.in", `{"alternate-exchange": "x"}`, []string{`exchange "p.in": a policy sets alternate-exchange`}},
		"alternate of the plugin":      {"p.plugin", `{"alternate-exchange": "x"}`, []string{"get a copy of every delayed message at once"}},
		"alternate, argument wins":     {"p.delivery", `{"alternate-exchange": "x"}`, nil},
		"of a later version":           {"p.wait", `{"queue-leader-locator": "balanced", "max-age": "7d"}`, nil},
		"not known":                    {"p.wait", `{"new-key": 1}`, []string{`queue "p.wait": a policy sets new-key, and this version does not know`}},
		"not known, of an exchange":    {"p.delivery", `{"new-key": 1}`, []string{`exchange "p.delivery": a policy sets new-key`}},
		"federation":                   {"p.delivery", `{"federation-upstream-set": "all"}`, []string{"federation-upstream-set to all, which would bring it messages"}},
		"shards":                       {"p.delivery", `{"shards-per-node": 2, "routing-key": "1"}`, []string{"shards-per-node, which would bind queues"}},
		"federation of a queue":        {"p.wait", `{"federation-upstream": "x"}`, []string{"federation-upstream to x"}},
	} {
		t.Run(name, func(t *testing.T) {
			var d Policy
			require.NoError(t, json.Unmarshal([]byte(c.policy), &d))
			applied := map[string]Policy{c.object: d}
			got := Harm(plan(), Policies{Queues: applied, Exchanges: applied})
			require.Len(t, got, len(c.want))
			for i, want := range c.want {
				require.Contains(t, got[i].String(), want)
			}
		})
	}
}

func TestNewPolicyAPI_Refuses(t *testing.T) {
	for _, address := range []string{"", "amqp://u:hunter2@h", "http://h", "http://u:hunter2@", "http://u:hunter2@h:x", "u:hunter2@h"} {
		_, err := NewPolicyAPI(address, "/", nil)
		require.ErrorIs(t, err, delayer.ErrConfig, address)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
