package kept

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// TestNature: what the management API tells of a queue, and does not.
func TestNature(t *testing.T) {
	for body, want := range map[string]undelivered.Nature{
		`{"type":"quorum","arguments":{},"effective_policy_definition":{}}`:                                                    {Type: "quorum"},
		`{"type":"classic","arguments":[],"effective_policy_definition":[],"auto_delete":true}`:                                {Type: "classic", AutoDelete: true},
		`{"type":"quorum","arguments":{"x-single-active-consumer":true},"policy":null}`:                                        {Type: "quorum", Single: true},
		`{"arguments":{"x-delivery-limit":-1},"effective_policy_definition":null,"policy":null}`:                               {Limits: []int64{-1}},
		`{"arguments":{"x-delivery-limit":9},"effective_policy_definition":{"delivery-limit":7},"policy":"p"}`:                 {Limits: []int64{9, 7}},
		`{"arguments":{"x-delivery-limit":9},"policy":"p","operator_policy":""}`:                                               {Limits: []int64{9}, Hidden: `policy "p" applies to it, and the management API does not tell what that sets`},
		`{"type":"quorum","arguments":{}}`:                                                                                     {Type: "quorum", Hidden: "the management API does not tell its policies yet"},
		`{"arguments":{"x-delivery-limit":9},"operator_policy":"p"}`:                                                           {Limits: []int64{9}, Hidden: `policy "p" applies to it, and the management API does not tell what that sets`},
		`{"arguments":{},"effective_policy_definition":{"delivery-limit":7,"max-length":5},"policy":"","operator_policy":"o"}`: {Limits: []int64{7}},
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "/api/queues/v/a%2Fb", r.URL.EscapedPath())
			_, _ = w.Write([]byte(body))
		}))
		settings, err := engine.Resolve(delayer.Options{
			URL: "amqp://localhost/v", Management: strings.Replace(api.URL, "//", "//u:p@", 1),
		}, "")
		require.NoError(t, err)
		got, err := nature(t.Context(), settings, "a/b")
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
		api.Close()
	}
}
