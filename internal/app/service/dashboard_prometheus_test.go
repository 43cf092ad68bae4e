package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/metrics"
	"github.com/delayer-go/delayer/status"
)

// TestDashboard_Prometheus asks a real Prometheus all that the dashboard and docs/metrics.md ask,
// while everything happens that can. Each query gives data, and each alert is raised.
func TestDashboard_Prometheus(t *testing.T) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		rabbittest.Skipf(t, "there is no prometheus")
	}
	p := startPrometheus(t, path, eventful(t))
	for _, query := range queries(t) {
		query = strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "[2m:30s]", "[2m:1s]").Replace(query)
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			require.Positive(t, p.ask(t, query), "no data: %s", query)
		}, time.Minute, 100*time.Millisecond)
	}
}

// queries are those of the dashboard, and the alerts.
func queries(t *testing.T) (all []string) {
	var d dashboard
	text, err := os.ReadFile("../../../grafana/delayer.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			all = append(all, target.Expr)
		}
	}
	text, err = os.ReadFile("../../../docs/metrics.md")
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```promql\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.Split(block[1], "\n")...)
	}
	return all
}

// eventful serves metrics for which everything happens at each scrape.
func eventful(t *testing.T) *httptest.Server {
	const many, late = 2000, 10 * time.Second
	m := metrics.New()
	nobody := ended(t)
	queues, outbox, entries := NewQueueGauges(nobody, backend.Config{}), NewOutboxGauges(nobody, nil, nil), NewEntryGauges(nobody, nil, nil)
	slots := status.Status{Backends: []status.Backend{{Due: []status.Due{}}}} // that tell what is overdue
	for state := range byState(slots) {
		queues.last = append(queues.last, gauge(queues.descs[0], many, "p", state))
	}
	outbox.last = []prometheus.Metric{gauge(outbox.descs[0], many, "failed"), gauge(outbox.descs[1], many)}
	times, passed := NewEntryTimes()
	answers, answered := NewHTTPTimes()
	for _, state := range []string{"waiting", "parked"} {
		entries.last = append(entries.last, gauge(entries.descs[0], many, "e", state))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, queues, outbox, times, entries, answers)
	o := m.Observer()
	o.Connection(delayer.ConnectionEvent{Now: delayer.ConnectionUp})
	o.Connection(delayer.ConnectionEvent{Backend: "b", Now: delayer.ConnectionUp})
	o.Connection(delayer.ConnectionEvent{Backend: "b", Was: delayer.ConnectionUp, Now: delayer.ConnectionDown})
	o.PolicyFault(delayer.PolicyFaultEvent{Backend: "b", Now: delayer.ErrConflict})
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered("GET /v1/limits", http.StatusOK, late)
		passed("e", "at_once", late)
		for _, err := range []error{nil, delayer.ErrUnknown, errors.New("other")} {
			o.Published(r.Context(), delayer.PublishEvent{Backend: "b", Took: late, Err: err})
			o.Delivered(delayer.DeliveryEvent{Backend: "b", Lateness: late, Err: err})
			o.Redeclared(delayer.RedeclareEvent{Backend: "b", Err: err})
		}
		o.Deleted(delayer.DeletedEvent{Backend: "b", Objects: []string{"queue"}})
		o.Misrouted(delayer.MisroutedEvent{Backend: "b"})
		o.Held(delayer.HeldEvent{Backend: "b", Messages: 1, Bytes: 1})
		o.Round(delayer.RoundEvent{Backend: "b"})
		for outcome := delayer.Succeeded; outcome <= delayer.GivenBack; outcome++ {
			o.Handled(delayer.HandledEvent{Queue: "q", Took: late, Outcome: outcome})
		}
		o.Parked(delayer.ParkedEvent{Queue: "q", Messages: 1})
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// A prometheusServer answers queries at an address.
type prometheusServer string

// startPrometheus scrapes a target until the test ends.
func startPrometheus(t *testing.T, path string, target *httptest.Server) prometheusServer {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "global: {scrape_interval: 100ms, scrape_timeout: 100ms}\n"+
		"scrape_configs: [{job_name: delayer, static_configs: [{targets: ['%s']}]}]\n", target.Listener.Addr()), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--config.file="+config, "--storage.tsdb.path="+dir, "--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it is killed
	})
	return prometheusServer(address)
}

// ask returns how many series a query gives.
func (p prometheusServer) ask(t require.TestingT, query string) int {
	answer, err := http.Get("http://" + string(p) + "/api/v1/query?" + url.Values{"query": {query}}.Encode())
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it is read
	var found struct {
		Error string
		Data  struct{ Result []any }
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&found))
	require.Empty(t, found.Error, query)
	return len(found.Data.Result)
}
