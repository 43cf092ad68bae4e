package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A table is all runs of one scenario with one type of queue.
type table struct {
	Scenario
	QueueType string
	Columns   []measure
	Rows      []row // in the order in which the subjects were first measured
}

// A row is one subject with its repetitions; there is at least one.
type row struct {
	Name  string
	runs  []Run
	Cells []cell // one for each column
}

// A cell is one figure as text: the median, and the range below it if the repetitions differ.
type cell struct{ Median, Between string }

// tables groups the runs of a report, in the order in which they were made. wide adds the columns
// for which a terminal has no room.
func tables(r *Report, wide bool) []table {
	var out []table
	for _, runs := range groupBy(r.Runs, func(run Run) string { return run.Scenario + run.QueueType }) {
		t := table{Scenario: Scenario{Name: runs[0].Scenario}, QueueType: runs[0].QueueType}
		if i := slices.IndexFunc(r.Scenarios, func(s Scenario) bool { return s.Name == t.Name }); i >= 0 {
			t.Scenario = r.Scenarios[i]
		}
		for _, m := range measures {
			if m.in(t.Name) && m.of(runs).runs > 0 && (wide || !m.wide) && !m.fault {
				t.Columns = append(t.Columns, m)
			}
		}
		for _, own := range groupBy(runs, Run.Subject) {
			row := row{Name: own[0].Name(), runs: own}
			for _, m := range t.Columns {
				row.Cells = append(row.Cells, m.cell(own))
			}
			t.Rows = append(t.Rows, row)
		}
		out = append(out, t)
	}
	return out
}

// Notes say what the figures alone do not, one line for each subject.
func (t table) Notes() (out []string) {
	for _, row := range t.Rows {
		var notes []string
		var sum Counts
		early := 0.0
		for _, run := range row.runs {
			sum.Lost, sum.Duplicated, sum.Early = sum.Lost+run.Lost, sum.Duplicated+run.Duplicated, sum.Early+run.Early
			early = max(early, run.EarlyByMS)
			notes = append(notes, run.notes()...)
		}
		if sum.Early > 0 {
			notes = append([]string{fmt.Sprintf("%s early, by up to %.1f ms", format.Thousands(sum.Early), early)}, notes...)
		}
		if sum.Lost+sum.Duplicated > 0 {
			notes = append([]string{fmt.Sprintf("%s lost, %s delivered twice", format.Thousands(sum.Lost), format.Thousands(sum.Duplicated))}, notes...)
		}
		if len(notes) > 0 {
			out = append(out, row.Name+": "+strings.Join(slices.Compact(notes), "; "))
		}
	}
	return out
}

func (r Run) notes() (out []string) {
	if grown := r.MemoryPerMessage * float64(r.Waiting); r.vagueMemory() {
		out = append(out, fmt.Sprintf("the broker's memory grew by %s MB to %s MB, too little for a figure",
			format.Figure(grown/1e6), format.Figure(float64(r.BrokerRSS)/1e6)))
	}
	switch {
	case r.Error != "":
		out = append(out, r.Error)
	case len(r.Probes) > 0:
		out = append(out, r.limit())
	case r.PublishPerS < 0.98*r.Rate:
		out = append(out, fmt.Sprintf("kept %s of %s msg/s; its lateness counts from the schedule",
			format.Figure(r.PublishPerS), format.Figure(r.Rate)))
	}
	return out
}

// limit says between which rates the limit is, and what happened above it.
func (r Run) limit() string {
	var lowest Probe
	for _, p := range r.Probes {
		if !p.Passed && p.Rate > r.MaxRate && (lowest.Rate == 0 || p.Rate < lowest.Rate) {
			lowest = p
		}
	}
	if lowest.Rate == 0 {
		return "no rate that was tried failed"
	}
	reason := "messages were lost, doubled or early, or could not be published"
	switch lowest.Reason {
	case "late":
		reason = fmt.Sprintf("p99 was %s ms late", format.Figure(lowest.Lateness.P99))
	case "confirms":
		reason = "confirms came too slowly"
	case "generator":
		reason = "the benchmark itself could not keep the rate"
	}
	text := fmt.Sprintf("at %s msg/s %s", format.Figure(lowest.Rate), reason)
	const closer = 1.06 // how far apart the two ends of a finished search are, and some more for rounding
	switch {
	case r.MaxRate == 0:
		return text + "; nothing lower was tried"
	case lowest.Rate > closer*r.MaxRate:
		text += "; there was no time to look closer"
	}
	return fmt.Sprintf("the limit is between %s and %s msg/s: %s",
		format.Figure(r.MaxRate), format.Figure(lowest.Rate), text)
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
