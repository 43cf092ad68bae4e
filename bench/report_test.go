package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// example is a report with everything that a renderer must cope with.
func example() *Report {
	samples := []Sample{at(time.Second, 4*time.Millisecond), at(2*time.Second, 8*time.Millisecond)}
	run := func(backend, variant string, rate, cpu float64) Run {
		r := summarise(samples, nil)
		r.Scenario, r.Backend, r.Variant, r.QueueType, r.Repetition = "accuracy", backend, variant, "quorum", 1
		r.Messages, r.Concurrency, r.DelayMinMS, r.DelayMaxMS = 2, 64, 1000, 2000
		r.PublishPerS, r.BrokerCPU, r.ProcessCPU, r.BrokerRSS = rate, cpu, cpu/4, 123456789
		return r
	}
	good, second := run("binaryladder", "source", 23903.4, 245.31), run("binaryladder", "topic", 9000, 803)
	second.Lateness = Lateness{1.5, 12.25, 99.96, 1234.5, 4990}
	lossy := run("per-message-ttl", "", 50000, 1)
	lossy.Baseline, lossy.Lost, lossy.Early, lossy.EarlyByMS = true, 1, 1, 0.44
	broken := Run{Scenario: "accuracy", Backend: "top-entry", QueueType: "quorum", Baseline: true, Repetition: 1,
		Error: "declare: no permission"}
	floor := run("undelayed", "", 60000, 20)
	floor.Baseline, floor.Undelayed = true, true
	hol := run("binaryladder", "source", 5000, 0)
	hol.Scenario, hol.QueueType, hol.Rate, hol.LatenessByStep = "hol", "classic", 10000, nil
	return &Report{
		SchemaVersion: SchemaVersion,
		Started:       time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Seconds:       12.5,
		Partial:       true,
		Command:       "delayer bench --quick",
		Machine:       Machine{"linux", "amd64", 2, "go1.26.0"},
		Broker:        BrokerInfo{Product: "RabbitMQ", Version: "3.10.8", How: "private node", Measured: true, IdleCPU: 1.25},
		Scenarios: []ScenarioInfo{
			{"accuracy", "how late?", "2 messages due after 1s–2s, as fast as confirmed, 64 publishers"},
			{"hol", "does it block?", "one long, then short ones"},
		},
		Runs: []Run{good, second, lossy, broken, floor, hol},
	}
}

func TestRenderersMatchTheGoldenFiles(t *testing.T) {
	report := example()
	for name, write := range map[string]func(io.Writer) error{
		"report.json": report.WriteJSON,
		"report.md":   report.WriteMarkdown,
		"report.txt":  report.WriteTable,
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			require.NoError(t, write(&got))
			path := filepath.Join("testdata", name)
			if *update {
				require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), got.String(), "go test ./bench -update accepts it")
		})
	}
}

// A line that a terminal breaks is no longer a row of a table.
func TestTablesFitIntoEightyColumns(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WriteTable(&out))
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), textWidth, line)
	}
	assert.Contains(t, out.String(), "no room here for own CPU")
}

// The design promises these fields to whoever reads report.json.
func TestJSONHasThePromisedShape(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WriteJSON(&out))
	var report struct {
		Broker map[string]any
		Runs   []map[string]any
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	for _, key := range []string{"product", "version", "how"} {
		assert.Contains(t, report.Broker, key)
	}
	for _, key := range []string{"scenario", "backend", "variant", "queue_type", "published", "delivered", "lost",
		"duplicated", "early", "publish_per_s", "broker_cpu_us_per_msg", "broker_rss_bytes", "lateness_ms", "error"} {
		assert.Contains(t, report.Runs[0], key)
	}
	for _, key := range []string{"min", "p50", "p90", "p99", "max"} {
		assert.Contains(t, report.Runs[0]["lateness_ms"], key)
	}
}

func TestOnlyABaselineMayBeEarlyOrLose(t *testing.T) {
	for name, c := range map[string]struct {
		run  Run
		want string
	}{
		"fine":              {Run{Counts: Counts{Published: 9, Delivered: 9}}, ""},
		"early":             {Run{Counts: Counts{Delivered: 9, Early: 1}, EarlyByMS: 0.44}, "1 early, by up to 0.4 ms"},
		"lost and twice":    {Run{Counts: Counts{Delivered: 9, Lost: 1, Duplicated: 2}}, "1 lost, 2 delivered more than once"},
		"refused":           {Run{Counts: Counts{Delivered: 9, Failed: 3}, Error: "full"}, "3 failed to publish, full"},
		"no measurement":    {Run{Error: "no permission"}, "no permission"},
		"baseline, early":   {Run{Baseline: true, Counts: Counts{Delivered: 9, Early: 1, Lost: 1, Failed: 1}, Error: "full"}, ""},
		"baseline, nothing": {Run{Baseline: true, Error: "no permission"}, "no permission"},
	} {
		assert.Equal(t, c.want, c.run.Problem(), name)
	}
}

func TestFigures(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0.0", 0.04: "0.0", 8.25: "8.2", 9.94: "9.9", 9.96: "10", 999.6: "1,000", 1234567: "1,234,567", -4: "-4.0", -12: "-12",
	} {
		assert.Equal(t, want, figure(value))
	}
	assert.Equal(t, "–", known(0))
	assert.Equal(t, "-1,000", thousands(-1000))
}

func TestRepetitionsBecomeMedians(t *testing.T) {
	var report Report
	for i, rate := range []float64{100, 300, 200} {
		report.Runs = append(report.Runs, Run{Scenario: "accuracy", Backend: "b", Repetition: i + 1,
			PublishPerS: rate, Counts: Counts{Published: 1, Delivered: 1, Lost: i}})
	}
	grids := report.Grids()
	require.Len(t, grids, 1)
	require.Len(t, grids[0].Rows, 1)
	cell := func(name string) string {
		i := slices.IndexFunc(grids[0].Head, func(c Column) bool { return c.Name == name })
		require.NotEqual(t, -1, i, name)
		return grids[0].Rows[0][i].Text
	}
	assert.Equal(t, "200", cell("publish"))
	assert.Equal(t, "3", cell("lost"), "what was lost is summed: a median would hide it")
	assert.Contains(t, grids[0].Notes[0], "median of 3 runs; publish 100–300 msg/s")
}
