package kept

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

func TestDeliveryLimit(t *testing.T) {
	for body, want := range map[string]int64{
		`{"arguments":{},"effective_policy_definition":{}}`:                                         20,
		`{"arguments":[],"effective_policy_definition":[]}`:                                         20,
		`{"arguments":{"x-delivery-limit":-1}}`:                                                     -1,
		`{"arguments":{"x-delivery-limit":1073741824},"effective_policy_definition":null}`:          1 << 30,
		`{"arguments":{},"effective_policy_definition":{"delivery-limit":7}}`:                       7,
		`{"arguments":{"x-delivery-limit":9},"effective_policy_definition":{"delivery-limit":7}}`:   7,
		`{"arguments":{"x-delivery-limit":5},"effective_policy_definition":{"delivery-limit":7}}`:   5,
		`{"arguments":{"x-delivery-limit":-1},"effective_policy_definition":{"delivery-limit":7}}`:  7,
		`{"arguments":{"x-delivery-limit":30},"effective_policy_definition":{"delivery-limit":-1}}`: 30,
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "/api/queues/v/a%2Fb", r.URL.EscapedPath())
			_, _ = w.Write([]byte(body))
		}))
		settings, err := engine.Resolve(delayer.Options{
			URL: "amqp://localhost/v", Management: strings.Replace(api.URL, "//", "//u:p@", 1),
		}, "")
		require.NoError(t, err)
		got, err := deliveryLimit(t.Context(), settings, "a/b")
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
		api.Close()
	}
}
