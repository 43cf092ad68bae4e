package report

import (
	"bytes"
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
	run := func(backend, variant string, rate, cpu float64) Run {
		return Run{
			Scenario: "accuracy", Backend: backend, Variant: variant, QueueType: "quorum", Repetition: 1,
			Messages: 2, Rate: 5000, Concurrency: 64, DelayMinMS: 1000, DelayMaxMS: 2000,
			Counts:      Counts{Published: 2, Delivered: 2},
			Lateness:    Lateness{Min: 4, P50: 4, P90: 8, P99: 8, Max: 8},
			PublishPerS: rate, BrokerCPU: cpu, ProcessCPU: cpu / 4, BrokerRSS: 123456789,
			LatenessByStep: []DelayLateness{
				{DelayMS: 1000, Count: 1, Lateness: Lateness{P50: 4, P99: 4}},
				{DelayMS: 2000, Count: 1, Lateness: Lateness{P50: 8, P99: 8}},
			},
		}
	}
	good, second := run("binaryladder", "source", 23903.4, 245.31), run("binaryladder", "topic", 9000, 803)
	second.Lateness = Lateness{Min: 1.5, P50: 12.25, P90: 99.96, P99: 934.5, Max: 4990}
	lossy := run("per-message-ttl", "", 50000, 1)
	lossy.Baseline, lossy.Lost, lossy.Early, lossy.EarlyByMS = true, 1, 1, 0.44
	broken := Run{Scenario: "accuracy", Backend: "top-entry", QueueType: "quorum", Baseline: true, Repetition: 1,
		Error: "declare: no permission"}
	floor := run("undelayed", "", 60000, 20)
	floor.Baseline, floor.Undelayed = true, true
	hol := run("binaryladder", "source", 5000, 0)
	hol.Scenario, hol.QueueType, hol.Rate, hol.LatenessByStep = "hol", "classic", 10000, nil
	hops := run("binaryladder", "source", 500, 0)
	hops.Scenario, hops.Rate, hops.LatenessByStep = "hops", 500, nil
	hops.ByHops = []HopCost{{Hops: 1, Queues: 1, BrokerCPU: 200, Lateness: Lateness{P99: 4}}, {Hops: 16, Lateness: Lateness{P99: 9}}}
	return &Report{
		SchemaVersion: SchemaVersion,
		Started:       time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Seconds:       12.5,
		Partial:       true,
		Command:       "delayer-bench --quick",
		Machine:       Machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26.0"},
		Broker: Broker{Product: "RabbitMQ", Version: "3.10.8", How: "private node", Measured: true,
			IdleCPU: 1.25},
		Scenarios: []Scenario{
			{Name: "accuracy", Question: "how late?", Setup: "2 messages due after 1s–2s, 5,000/s, 64 publishers"},
			{Name: "hol", Question: "does it block?", Setup: "one long, then short ones"},
		},
		Runs:    []Run{good, second, lossy, broken, floor, hol, hops},
		Skipped: []Skip{{Backend: "plugin", QueueType: "quorum", Reason: "no exchange type x-delayed-message"}},
	}
}

func TestRenderersMatchTheGoldenFiles(t *testing.T) {
	for name, write := range map[string]func(*Report, io.Writer) error{
		"report.md": (*Report).WriteMarkdown, "report.txt": (*Report).WriteText, "report.bench": (*Report).WriteBenchfmt,
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			require.NoError(t, write(example(), &got))
			path := filepath.Join("testdata", name)
			if *update {
				require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), got.String(), "go test ./bench/report -update accepts it")
		})
	}
}

// A line that a terminal breaks is no longer a row of a table.
func TestTablesFitIntoEightyColumns(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WriteText(&out))
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), textWidth, line)
	}
	assert.Contains(t, out.String(), "no room here for own CPU")
}

func TestRepetitionsBecomeMedians(t *testing.T) {
	var r Report
	for i, rate := range []float64{100, 300, 200} {
		r.Runs = append(r.Runs, Run{Scenario: "accuracy", Backend: "b", Repetition: i + 1,
			PublishPerS: rate, Counts: Counts{Published: 1, Delivered: 1, Lost: i}})
	}
	grid := tables(&r)[0].grid
	assert.Equal(t, "200", cellOf(t, grid, "b", "publish").Text)
	assert.Equal(t, "3", cellOf(t, grid, "b", "lost").Text, "what was lost is summed: a median would hide it")
	assert.Contains(t, grid.Notes[0], "b: medians of 3 runs, between publish 100–300")
	assert.Contains(t, legend(&r), "Lost, twice and early are those of all repetitions together")
	assert.Zero(t, median(nil))
	assert.Equal(t, 1.5, median([]float64{2, 1}))
}

func cellOf(t *testing.T, g grid, subject, head string) cell {
	t.Helper()
	column := slices.IndexFunc(g.Head, func(c column) bool { return c.Name == head })
	row := slices.IndexFunc(g.Rows, func(row []cell) bool { return row[0].Text == subject })
	require.NotEqual(t, -1, column, head)
	require.NotEqual(t, -1, row, subject)
	return g.Rows[row][column]
}

func TestLimitOfARate(t *testing.T) {
	run := Run{Counts: Counts{Delivered: 1}, Probes: []Probe{
		{Rate: 2000, Reason: "publisher"}, {Rate: 1000, Reason: "late", Lateness: Lateness{P99: 123}},
	}}
	assert.Equal(t, "at 1,000 msg/s p99 was 123 ms late; nothing lower was tried", limit(run))
	_, known := lateness(func(l Lateness) float64 { return l.P99 })(run)
	assert.False(t, known, "of no rate")
	run.Probes = run.Probes[:1]
	assert.Equal(t, "at 2,000 msg/s publishing fell behind; nothing lower was tried", limit(run), "an older report")
	run.MaxRate, run.Probes = 500, []Probe{{Rate: 500, Passed: true}, {Rate: 2000, Reason: "confirms"}}
	_, known = lateness(func(l Lateness) float64 { return l.P99 })(run)
	assert.True(t, known)
	assert.Equal(t, "the limit is between 500 and 2,000 msg/s: at 2,000 msg/s confirms came too slowly; there was no time to look closer", limit(run))
	run.Probes[1].Rate, run.Probes[1].Reason = 525, "generator"
	assert.Equal(t, "the limit is between 500 and 525 msg/s: at 525 msg/s the benchmark itself could not keep the rate", limit(run))
	run.MaxRate = 525
	assert.Equal(t, "no rate that was tried failed", limit(run), "the second attempt passed")
	run.Probes, run.MaxRate = run.Probes[:1], 500
	assert.Equal(t, "no rate that was tried failed", limit(run))
}

// TestVagueMemory: a figure that cannot be had wins nothing, and nobody wins beside it.
func TestVagueMemory(t *testing.T) {
	ran := func(subject string, before, grown float64) Run {
		return did("backlog", subject, func(r *Run) {
			r.Messages, r.BodyBytes, r.Waiting = 100_000, 64, 100_000
			r.MemoryPerMessage, r.BrokerRSS = grown/100_000, int64(before+grown)
		})
	}
	memory := func(runs ...Run) (texts []string, winners string, notes int) {
		all := tables(&Report{Runs: runs})
		require.Len(t, all, 1)
		for _, row := range all[0].rows {
			texts = append(texts, cellOf(t, all[0].grid, row.name, "memory").Text)
		}
		return texts, all[0].winners(find("memory")), len(all[0].grid.Notes)
	}
	const before = 200e6
	enough, small, shrunk := ran("a", before, 20.1e6), ran("b", before, 19.9e6), ran("c", before, -1e6)
	more, dropped := ran("d", before, 90e6), ran("e", before, 0)

	texts, winners, notes := memory(enough, more)
	assert.Equal(t, []string{"201", "900"}, texts)
	assert.Equal(t, "a 201", winners)
	assert.Zero(t, notes)
	for _, vague := range []Run{small, shrunk, dropped} {
		texts, winners, notes = memory(enough, more, vague)
		assert.Equal(t, []string{"201", "900", "–"}, texts)
		assert.Equal(t, "nobody", winners, "the third may take the least")
		assert.Equal(t, 1, notes)
	}
	assert.Contains(t, rowsOf([]Run{small})[0].notes()[0], "the broker's 200 MB of memory grew by 20 MB, too little for a figure")
	assert.Contains(t, rowsOf([]Run{shrunk})[0].notes()[0], "the broker's memory did not grow: no figure")
	shrunk.BrokerRSS, shrunk.MemoryPerMessage = 0, 0
	_, winners, _ = memory(enough, more, shrunk)
	assert.Equal(t, "a 201", winners, "a broker whose memory is not known tells nothing of the third")
}
