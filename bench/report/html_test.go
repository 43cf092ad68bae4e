package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

var keep = flag.String("keep", "", "write the pages of the tests' reports into this folder, to look at")

// rendered writes the report's page into a file of its own and returns its path and its text.
func rendered(t *testing.T, name string, r *report.Report) (path, text string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, r.WriteHTML(&out))
	return write(t, name, out.String()), out.String()
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	dir := t.TempDir()
	if *keep != "" {
		dir = *keep
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	path, err := filepath.Abs(filepath.Join(dir, name+".html"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// empty is a report of nothing, as an interrupted benchmark leaves it.
func empty() *report.Report {
	return &report.Report{SchemaVersion: report.SchemaVersion, Partial: true, Runs: []report.Run{},
		Broker: report.Broker{Product: "RabbitMQ", Version: "4.3.6", How: "AMQP_URL"}}
}

func TestPageSaysWhatIsWrongPlainly(t *testing.T) {
	r := full()
	r.Partial = true
	_, text := rendered(t, "partial", r)
	for _, want := range []string{
		"Partial.", "runs are missing", "burst, binaryladder topic, classic queues: 3 lost, the consumer&#39;s connection was lost",
		"no exchange type x-delayed-message", "kept 27,100 of 40,000 msg/s", "delayer-bench --full", "2 cores, linux/amd64",
	} {
		assert.Contains(t, text, want)
	}
}

func TestPageHasOnlyWhatTheReportHolds(t *testing.T) {
	r := full()
	r.Runs = r.Runs[:1]
	_, text := rendered(t, "one", r)
	assert.Contains(t, text, "How late")
	for _, absent := range []string{"Due against arrival", "Lost when", "Cost by set bits", "NaN", "Inf", "%!"} {
		assert.NotContains(t, text, absent)
	}
	r.Runs[0].Distribution, r.Runs[0].BrokerCPU = nil, 0
	_, text = rendered(t, "less", r)
	assert.Contains(t, text, "How late", "from the percentiles alone")
	assert.NotContains(t, text, "costs the broker")
}

func TestPageEscapesWhatItIsGiven(t *testing.T) {
	r := full()
	r.Command = "delayer-bench <script>alert(1)</script>"
	r.Runs[0].Backend = `"><script>alert(2)</script>`
	_, text := rendered(t, "hostile", r)
	assert.NotContains(t, text, "<script")
}
