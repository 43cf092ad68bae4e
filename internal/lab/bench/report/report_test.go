package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// example is a report with everything that a renderer must cope with. Its figures are measured by
// nobody.
func example() *Report {
	r := &Report{
		SchemaVersion: SchemaVersion, Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Seconds: 12.5, Partial: true,
		Command: "delayer-bench --quick", Machine: Machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26.0"},
		Broker: Broker{Product: "RabbitMQ", Version: "3.10.8", How: "private node", Measured: true, IdleCPU: 1.25},
		Scenarios: []Scenario{
			{Name: "accuracy", Question: "how late?", Setup: "2 messages due after 1s–2s, 5,000/s, 64 publishers"},
			{Name: "cost", Question: "at what cost?", Setup: "2 messages due after 1s–2s, as fast as confirmed"},
		},
		Subjects: []Subject{{Name: "top-entry", About: "a ladder"}},
		Skipped:  []Skip{{Backend: "plugin", QueueType: "quorum", Reason: "no exchange type x-delayed-message"}},
	}
	add := func(scenario, backend, variant string, change func(*Run)) {
		run := Run{
			Scenario: scenario, Backend: backend, Variant: variant, QueueType: "quorum", Repetition: 1, Messages: 2, Concurrency: 64,
			Counts: Counts{Published: 2, Delivered: 2}, Lateness: Percentiles{Min: 4, P50: 4, P90: 8, P99: 8, Max: 8},
			PublishPerS: 5000, Publish: Percentiles{P50: 1.5}, BrokerCPU: 245.31, ProcessCPU: 61.3, Hops: 1,
		}
		change(&run)
		r.Runs = append(r.Runs, run)
	}
	for i, cpu := range []float64{200, 235.4, 182} {
		add("cost", "binaryladder", "source", func(r *Run) {
			r.Repetition, r.BrokerCPU = i+1, cpu
		})
		add("cost", "top-entry", "", func(r *Run) {
			r.Repetition, r.Baseline, r.BrokerCPU, r.PublishPerS = i+1, true, 20*cpu, 160
		})
	}
	at := func(rate float64) func(*Run) { return func(r *Run) { r.Rate = rate } }
	add("accuracy", "binaryladder", "source", at(5000))
	add("accuracy", "binaryladder", "topic", at(6000))
	add("accuracy", "per-message-ttl", "", func(r *Run) {
		r.Baseline, r.Lost, r.Early, r.EarlyByMS = true, 1, 1, 0.44
		r.Lateness = Percentiles{Min: 1.5, P50: 12.25, P90: 99.96, P99: 934.5, Max: 4990}
	})
	add("accuracy", "top-entry", "", func(r *Run) {
		*r = Run{Scenario: "accuracy", Backend: "top-entry", QueueType: "quorum", Baseline: true, Error: "declare: no permission"}
	})
	return r
}

// TestGolden: go test ./internal/lab/bench/report -update accepts what changed.
func TestGolden(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"report.txt": example().WriteText, "report.bench": example().WriteBenchfmt,
	} {
		var got bytes.Buffer
		require.NoError(t, write(&got))
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), got.String(), name)
		for line := range strings.Lines(got.String()) {
			if name == "report.txt" { // a line that a terminal breaks is no longer a row of a table
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
			}
		}
	}
}

func TestHTML(t *testing.T) {
	r := example()
	r.Command = "<script>"
	var out bytes.Buffer
	require.NoError(t, r.WriteHTML(&out))
	page := out.String()
	for _, want := range []string{
		"Celery ladder", ">200<small>182–235</small>", "1 lost, 0 delivered twice; 1 early, by up to 0.4 ms", "declare: no permission", "The benchmark was interrupted",
		"With --backend it is top-entry", "skipped: plugin, quorum queues: no exchange type x-delayed-message", "&lt;script&gt;",
	} {
		assert.True(t, strings.Contains(page, want), want)
	}
	assert.Equal(t, 4, strings.Count(page, "<svg"), "two charts of each scenario")
	for _, never := range []string{"<script", "src=", "url(", "@import", "NaN", "Inf"} {
		assert.False(t, strings.Contains(page, never), never)
	}
}

func TestPicture(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WritePicture(&out))
	for _, want := range []string{"Celery ladder", "broker CPU", "client CPU", "median and range of 3 runs", "RabbitMQ 3.10.8, 2 cores, quorum queues, 1 March 2026"} {
		assert.True(t, strings.Contains(out.String(), want), want)
	}
	require.ErrorIs(t, (&Report{}).WritePicture(&out), ErrNoPicture)
}

func TestSpread(t *testing.T) {
	var runs []Run
	for i, rate := range []float64{100, 300, 200, 0} {
		runs = append(runs, Run{Scenario: "cost", PublishPerS: rate, Counts: Counts{Published: 1, Lost: i}})
	}
	of := func(name string, n int) spread {
		for _, m := range measures {
			if m.name == name {
				return m.of(runs[:n])
			}
		}
		t.Fatal(name)
		return spread{}
	}
	assert.Equal(t, spread{200, 100, 300, 3}, of("publish", 4), "one was not measured")
	assert.Equal(t, spread{200, 100, 300, 2}, of("publish", 2), "the mean of the two in the middle")
	assert.Equal(t, spread{6, 6, 6, 4}, of("lost", 4), "what was lost is summed: a median would hide it")
	assert.Zero(t, of("broker CPU", 4))
}

func TestLimitOfARate(t *testing.T) {
	late := Probe{Rate: 1000, Reason: "late", Lateness: Percentiles{P99: 123}}
	for want, run := range map[string]Run{
		"at 1,000 msg/s p99 was 123 ms late; nothing lower was tried": {Probes: []Probe{{Rate: 2000, Reason: "late"}, late}},
		"the limit is between 500 and 2,000 msg/s: at 2,000 msg/s confirms came too slowly; there was no time to look closer": {
			MaxRate: 500, Probes: []Probe{{Rate: 500, Passed: true}, {Rate: 2000, Reason: "confirms"}}},
		"the limit is between 500 and 525 msg/s: at 525 msg/s the benchmark itself could not keep the rate": {
			MaxRate: 500, Probes: []Probe{{Rate: 500, Passed: true}, {Rate: 525, Reason: "generator"}}},
		"no rate that was tried failed": {MaxRate: 525, Probes: []Probe{{Rate: 525, Reason: "late"}, {Rate: 525, Passed: true}}},
	} {
		assert.Equal(t, want, run.limit())
	}
}

// TestVagueMemory: less than a tenth of the broker's memory is no figure.
func TestVagueMemory(t *testing.T) {
	for grown, vague := range map[float64]bool{20.1e6: false, 19.9e6: true, -1e6: true, 0: true} {
		run := Run{Scenario: "backlog", Waiting: 100_000, BrokerRSS: int64(200e6 + grown), MemoryPerMessage: grown / 100_000}
		assert.Equal(t, vague, run.vagueMemory(), grown)
		assert.Equal(t, vague, len(run.notes()) > 0, grown)
	}
	assert.False(t, Run{Scenario: "backlog", Waiting: 100_000}.vagueMemory(), "nobody knows that broker's memory")
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

func TestRead(t *testing.T) {
	var first, second bytes.Buffer
	require.NoError(t, example().WriteJSON(&first))
	report, err := Read(bytes.NewReader(first.Bytes()))
	require.NoError(t, err)
	require.NoError(t, report.WriteJSON(&second))
	assert.Equal(t, first.String(), second.String())
	for text, want := range map[string]string{
		"<html>": "not a report.json", "{}": "no schema_version", `{"schema_version": 99}`: "another schema version: 99",
	} {
		_, err := Read(strings.NewReader(text))
		assert.ErrorContains(t, err, want)
	}
}
