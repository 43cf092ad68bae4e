package report

import (
	"fmt"
	"slices"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/internal/format"
)

// A Table is all runs of one scenario with one type of queue.
type Table struct {
	Scenario  bench.ScenarioInfo
	QueueType string
	Rows      []Row          // in the order in which the subjects were first measured
	Grid      Grid           // the same as text
	ByHops    Grid           // what each number of hops cost; without rows if that is not known
	ByDelay   Grid           // how late each delay was; without rows where there was one
	fit       func(Row) bool // whether the subject of a row does the job
}

// A Row is one subject with its repetitions; there is at least one.
type Row struct {
	Name    string
	Runs    []bench.Run
	setting string // what was published, where the scenario was run with several settings
}

// Tables groups the runs of a report, in the order in which they were made.
func Tables(r *bench.Report) []Table {
	without := unfit(r)
	fit := func(row Row) bool { return without[subjectOf(row.Runs[0])] == "" }
	var out []Table
	for _, runs := range groupBy(r.Runs, func(run bench.Run) string { return run.Scenario + run.QueueType }) {
		t := Table{Scenario: info(r, runs[0].Scenario), QueueType: runs[0].QueueType, Rows: rowsOf(runs), fit: fit}
		t.Grid, t.ByHops, t.ByDelay = t.grid(), t.byHops(), t.byDelay()
		out = append(out, t)
	}
	return out
}

// rowsOf are the subjects. Where backlog was run with several amounts or sizes of message, each
// setting has a row of its own.
func rowsOf(runs []bench.Run) []Row {
	setting := func(r bench.Run) string {
		return fmt.Sprintf(", %s × %d B", format.Thousands(r.Messages), r.BodyBytes)
	}
	several := slices.ContainsFunc(runs, func(r bench.Run) bool {
		return r.Scenario == "backlog" && setting(r) != setting(runs[0])
	})
	if !several {
		setting = func(bench.Run) string { return "" }
	}
	var out []Row
	for _, own := range groupBy(runs, func(r bench.Run) string { return r.Subject() + setting(r) }) {
		out = append(out, Row{Name: own[0].Subject() + setting(own[0]), Runs: own, setting: setting(own[0])})
	}
	return out
}

func info(r *bench.Report, scenario string) bench.ScenarioInfo {
	for _, info := range r.Scenarios {
		if info.Name == scenario {
			return info
		}
	}
	return bench.ScenarioInfo{Name: scenario}
}

// First is the first repetition that measured something, else the first.
func (row Row) First() bench.Run {
	for _, run := range row.Runs {
		if run.Delivered > 0 {
			return run
		}
	}
	return row.Runs[0]
}

// Median is that of a figure over the repetitions, with the lowest and the highest. A figure that
// is 0 was not measured and does not count.
func (row Row) Median(value func(bench.Run) float64) (middle, lowest, highest float64) {
	var values []float64
	for _, run := range row.Runs {
		if v := value(run); v != 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, 0, 0
	}
	return median(values), slices.Min(values), slices.Max(values)
}

// Sum is that of a count over the repetitions.
func (row Row) Sum(n func(bench.Run) int) int {
	sum := 0
	for _, run := range row.Runs {
		sum += n(run)
	}
	return sum
}

// groupBy keeps the order in which keys first occur.
func groupBy(runs []bench.Run, key func(bench.Run) string) [][]bench.Run {
	var out [][]bench.Run
	at := map[string]int{}
	for _, run := range runs {
		i, seen := at[key(run)]
		if !seen {
			i = len(out)
			at[key(run)] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], run)
	}
	return out
}
