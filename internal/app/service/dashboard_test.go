package service

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/metrics"
)

// desc reads what a prometheus.Desc shows of itself.
var desc = regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)

// exposed are the labels of each metric that a service exposes.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 100)
	times, _ := NewEntryTimes()
	answers, _ := NewHTTPTimes()
	clients, proxied, _ := NewProxyMetrics("declared")
	for _, c := range []prometheus.Collector{
		metrics.New(), NewQueueGauges(ended(t), backend.Config{}), NewPolicyGauges(ended(t), backend.Config{}),
		NewOutboxGauges(ended(t), nil, nil), NewEntryGauges(ended(t), nil, nil), times, answers, clients, proxied,
	} {
		c.Describe(descs)
	}
	close(descs)
	all := map[string][]string{}
	for d := range descs {
		found := desc.FindStringSubmatch(d.String())
		require.NotNil(t, found, d.String())
		name, labels := found[1], strings.Split(found[2], ",")
		all[name] = labels
		if slices.Contains([]string{"delayer_confirm_seconds", "delayer_lateness_seconds", "delayer_retry_handler_seconds", "delayer_entry_seconds", "delayer_http_request_seconds"}, name) { // histograms
			all[name+"_count"], all[name+"_sum"], all[name+"_bucket"] = labels, labels, append(slices.Clone(labels), "le")
		}
	}
	return all
}

var (
	samples  = regexp.MustCompile(`\b(delayer_\w+)(?:\{([^}]*)\})?`)
	matchers = regexp.MustCompile(`(\w+)\s*[=!]~?\s*"`)
	by       = regexp.MustCompile(`\bby \(([\w, ]*)\)`)
)

// ofPrometheus are labels that Prometheus adds.
var ofPrometheus = []string{"job", "instance"}

// checkExpr checks that the metrics of an expression, and their labels, are exposed. It reads names
// and labels, and no grammar: a real Prometheus must be asked for that.
func checkExpr(t *testing.T, expr string, exposed map[string][]string) {
	t.Helper()
	found := samples.FindAllStringSubmatch(expr, -1)
	require.NotEmpty(t, found, expr)
	for _, s := range found {
		labels, known := exposed[s[1]]
		if !assert.True(t, known, "%s is not exposed: %s", s[1], expr) {
			continue
		}
		allowed := append(slices.Clone(ofPrometheus), labels...)
		for _, l := range matchers.FindAllStringSubmatch(s[2], -1) {
			assert.Contains(t, allowed, l[1], "%s has no such label: %s", s[1], expr)
		}
		for _, list := range by.FindAllStringSubmatch(expr, -1) {
			for l := range strings.SplitSeq(list[1], ",") {
				assert.Contains(t, allowed, strings.TrimSpace(l), "%s has no such label: %s", s[1], expr)
			}
		}
	}
}

type dashboard struct {
	Panels []struct {
		Title, Type string
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
	SchemaVersion int
	UID           string
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../grafana/delayer.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.GreaterOrEqual(t, d.SchemaVersion, 39, "Grafana 11's")
	all, shown := exposed(t), string(text)
	for _, panel := range d.Panels {
		if panel.Type == "row" {
			continue
		}
		assert.NotEmpty(t, panel.FieldConfig.Defaults.Unit, "%s has no unit", panel.Title)
		assert.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			checkExpr(t, target.Expr, all)
		}
	}
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			checkExpr(t, v.Definition, all)
		}
	}
	for metric := range all {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_count"), "_sum"), "_bucket")
		assert.Contains(t, shown, base, "no panel shows it")
	}
}

// TestMetricsPage: the table has each metric with its labels, and nothing else; the alerts ask for
// what there is.
func TestMetricsPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operating.md")
	require.NoError(t, err)
	all := exposed(t)
	row := regexp.MustCompile("(?m)^\\| `(delayer_\\w+)` \\|([^|]*)\\|")
	var listed []string
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, r[1])
		var labels []string
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(r[2], -1) {
			labels = append(labels, l[1])
		}
		assert.ElementsMatch(t, slices.DeleteFunc(slices.Clone(all[r[1]]), func(l string) bool { return l == "" }), labels, r[1])
	}
	var want []string
	for metric := range all {
		if !strings.HasSuffix(metric, "_bucket") && !strings.HasSuffix(metric, "_sum") && !strings.HasSuffix(metric, "_count") {
			want = append(want, metric)
		}
	}
	assert.ElementsMatch(t, want, listed)
	queries := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, queries)
	for _, block := range queries {
		for line := range strings.Lines(block[1]) {
			if strings.Contains(line, "delayer_") {
				checkExpr(t, line, all)
			}
		}
	}
}
