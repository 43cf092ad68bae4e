package objects

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/management"
)

// TestAround: what a direct exchange has leads around serve, unless the plugin still has it.
func TestAround(t *testing.T) {
	binding := func(source, target string) string {
		return `{"source":"` + source + `","destination":"` + target + `","destination_type":"queue","routing_key":"k"}`
	}
	answers := map[string]string{
		"queues/v": `{"page_count":1,"items":[{"name":"p.serve.queue.topic"},{"name":"p.serve.queue.direct"},{"name":"p.serve.queue.plugin"},` +
			`{"name":"p.serve.queue.gone"},{"name":"another.p.serve.queue.x"}]}`,
		"exchanges/v/topic/bindings/source":                 `[` + binding("topic", "p.serve.queue.topic") + `,` + binding("topic", "early") + `]`,
		"exchanges/v/p.serve.expired.topic/bindings/source": `[` + binding("p.serve.expired.topic", "p.serve.back.topic") + `]`,
		"exchanges/v/direct/bindings/source":                `[` + binding("direct", "early") + `]`,
		"exchanges/v/direct":                                `{"type":"direct"}`,
		"exchanges/v/p.serve.all.direct/bindings/source":    `[` + binding("p.serve.all.direct", "early") + `,` + binding("p.serve.all.direct", "p.serve.queue.direct") + `]`,
		"exchanges/v/plugin/bindings/source":                `[` + binding("plugin", "right") + `]`,
		"exchanges/v/plugin":                                `{"type":"x-delayed-message"}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[strings.TrimPrefix(r.URL.Path, "/api/")]
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer api.Close()
	client, err := management.New(strings.Replace(api.URL, "//", "//u:p@", 1), 0, nil)
	require.NoError(t, err)
	found, err := Around(t.Context(), client, "v", "p")
	require.NoError(t, err)
	var sources []string
	for _, d := range found {
		require.Equal(t, IsSurplus, d.Kind)
		require.Contains(t, d.Object, `to queue "early"`)
		sources = append(sources, strings.Split(d.Object, `"`)[1])
	}
	require.Equal(t, []string{"topic", "direct", "p.serve.all.direct"}, sources)
	delete(answers, "queues/v")
	_, err = Around(t.Context(), client, "v", "p")
	require.Error(t, err)
}
