package report

import (
	"fmt"
	"slices"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A table is all runs of one scenario with one type of queue.
type table struct {
	scenario  Scenario
	queueType string
	rows      []row          // in the order in which the subjects were first measured
	grid      grid           // the same as text
	byHops    grid           // the cost of each number of hops; without rows if not measured
	byDelay   grid           // the lateness of each delay; without rows if there was one delay
	fit       func(row) bool // whether the subject of a row does the job
}

// A row is one subject with its repetitions; there is at least one.
type row struct {
	name    string
	runs    []Run
	setting string // what was published, where the scenario was run with several settings
}

// tables groups the runs of a report, in the order in which they were made.
func tables(r *Report) []table {
	without := unfit(r)
	fit := func(row row) bool { return without[contestantOf(row.runs[0])] == "" }
	var out []table
	for _, runs := range groupBy(r.Runs, func(run Run) string { return run.Scenario + run.QueueType }) {
		t := table{scenario: Scenario{Name: runs[0].Scenario}, queueType: runs[0].QueueType, rows: rowsOf(runs), fit: fit}
		if i := slices.IndexFunc(r.Scenarios, func(s Scenario) bool { return s.Name == runs[0].Scenario }); i >= 0 {
			t.scenario = r.Scenarios[i]
		}
		t.grid, t.byHops, t.byDelay = t.figures(), t.hops(), t.delays()
		out = append(out, t)
	}
	return out
}

// rowsOf groups runs by subject. Where backlog was run with several amounts or sizes of message,
// each setting has a row of its own.
func rowsOf(runs []Run) []row {
	setting := func(r Run) string {
		return fmt.Sprintf(", %s × %d B", format.Thousands(r.Messages), r.BodyBytes)
	}
	several := slices.ContainsFunc(runs, func(r Run) bool {
		return r.Scenario == "backlog" && setting(r) != setting(runs[0])
	})
	if !several {
		setting = func(Run) string { return "" }
	}
	var out []row
	for _, own := range groupBy(runs, func(r Run) string { return r.Subject() + setting(r) }) {
		out = append(out, row{own[0].Name() + setting(own[0]), own, setting(own[0])})
	}
	return out
}

// first is the first repetition that measured something, else the first.
func (r row) first() Run {
	return r.runs[max(0, slices.IndexFunc(r.runs, func(run Run) bool { return run.Delivered > 0 }))]
}

// groupBy keeps the order in which keys first occur.
func groupBy(runs []Run, key func(Run) string) [][]Run {
	var out [][]Run
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
