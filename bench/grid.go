package bench

import (
	"fmt"
	"slices"
)

// A Grid is one table of a report, ready for any renderer: all runs of one scenario with one queue type.
type Grid struct {
	Title    string // "accuracy, quorum queues"
	Question string // what was asked
	Setup    string // what was done
	Head     []Column
	Rows     [][]Cell
	Notes    []string // below the table: failures, rates not kept
}

// A Column is the head of a column. Left aligns text rather than figures. Fault is a column that is all
// zeros if all is well.
type Column struct {
	Name, Unit  string
	Left, Fault bool
}

// A Cell is one figure as text. Best marks the best of its column, Bad what no delay should do.
type Cell struct {
	Text string
	Best bool
	Bad  bool
}

// A measure is a column of figures: how to read it from a run, and which way is better.
type measure struct {
	name, unit string
	value      func(Run) float64
	text       func(float64) string
	highest    bool // the best is the highest; else the lowest
	fault      bool // anything but 0 is wrong; there is no best
	free       bool // there is a best only where no rate was asked for
	scenarios  []string
}

// measures are the columns, in order. Those without scenarios are in every table.
var measures = []measure{
	{name: "publish", unit: "msg/s", value: func(r Run) float64 { return r.PublishPerS }, text: known,
		highest: true, free: true, scenarios: []string{"accuracy", "backlog"}},
	{name: "CPU", unit: "µs/msg", value: func(r Run) float64 { return r.BrokerCPU }, text: known,
		scenarios: []string{"accuracy", "burst"}},
	{name: "own CPU", unit: "µs/msg", value: func(r Run) float64 { return r.ProcessCPU }, text: known,
		scenarios: []string{"accuracy"}},
	{name: "in time to", unit: "msg/s", value: func(r Run) float64 { return r.MaxRate }, text: known,
		highest: true, scenarios: []string{"rate"}},
	{name: "drained in", unit: "ms", value: func(r Run) float64 { return r.DrainMS }, text: known,
		scenarios: []string{"burst"}},
	{name: "memory", unit: "B/msg", value: func(r Run) float64 { return r.MemoryPerMessage }, text: known,
		scenarios: []string{"backlog"}},
	{name: "disk", unit: "B/msg", value: func(r Run) float64 { return r.DiskPerMessage }, text: known,
		scenarios: []string{"backlog"}},
	{name: "down for", unit: "ms", value: func(r Run) float64 { return r.DownMS }, text: known,
		scenarios: []string{"crash", "recovery"}},
	{name: "serves after", unit: "ms", value: func(r Run) float64 { return r.ServesMS }, text: known,
		scenarios: []string{"crash", "recovery"}},
	{name: "late p50", unit: "ms", value: func(r Run) float64 { return r.Lateness.P50 }, text: figure},
	{name: "p90", unit: "ms", value: func(r Run) float64 { return r.Lateness.P90 }, text: figure},
	{name: "p99", unit: "ms", value: func(r Run) float64 { return r.Lateness.P99 }, text: figure},
	{name: "max", unit: "ms", value: func(r Run) float64 { return r.Lateness.Max }, text: figure},
	{name: "lost", unit: "msg", value: func(r Run) float64 { return float64(r.Lost) }, text: whole, fault: true},
	{name: "twice", unit: "msg", value: func(r Run) float64 { return float64(r.Duplicated) }, text: whole, fault: true},
	{name: "early", unit: "msg", value: func(r Run) float64 { return float64(r.Early) }, text: whole, fault: true},
}

func whole(v float64) string { return thousands(int64(v)) }

// Grids returns the report's tables, in the order in which the runs were made.
func (r *Report) Grids() []Grid {
	var out []Grid
	for _, group := range groupBy(r.Runs, table) {
		out = append(out, r.grid(group))
		if hops := byHops(group); len(hops.Rows) > 0 {
			out = append(out, hops)
		}
	}
	return out
}

// table says in which table a run is.
func table(run Run) string { return run.Scenario + run.QueueType }

func (r *Report) grid(runs []Run) Grid {
	first := runs[0]
	g := Grid{
		Title: fmt.Sprintf("%s, %s queues", first.Scenario, first.QueueType),
		Head:  []Column{{Name: "subject", Left: true}},
	}
	info := r.info(first.Scenario)
	g.Question, g.Setup = info.Question, info.Setup
	name := rowName(runs)
	subjects := groupBy(runs, name)
	for _, group := range subjects {
		g.Rows = append(g.Rows, []Cell{{Text: name(group[0])}})
		g.Notes = append(g.Notes, remarks(group)...)
	}
	for _, m := range measures {
		if len(m.scenarios) == 0 || slices.Contains(m.scenarios, first.Scenario) {
			g.addColumn(m, subjects)
		}
	}
	return g
}

// addColumn writes one measure of every subject: the median of its repetitions, of faults the sum.
func (g *Grid) addColumn(m measure, subjects [][]Run) {
	g.Head = append(g.Head, Column{Name: m.name, Unit: m.unit, Fault: m.fault})
	values := make([]float64, len(subjects))
	var ranked []float64
	for i, group := range subjects {
		values[i] = m.of(group)
		if ranks(group) && !m.fault {
			ranked = append(ranked, values[i])
		}
	}
	if m.free && subjects[0][0].Rate > 0 || !m.fault && len(m.scenarios) == 0 && len(subjects[0][0].Probes) > 0 {
		ranked = nil // at a rate of its own each, lateness cannot be compared
	}
	best := bestOf(ranked, m.highest)
	for i, group := range subjects {
		cell := Cell{Text: m.text(values[i])}
		if group[0].Delivered == 0 {
			cell.Text = "–" // nothing to measure
		}
		cell.Bad = m.fault && values[i] > 0
		cell.Best = len(ranked) > 1 && ranks(group) && !m.fault && cell.Text == m.text(best) && cell.Text != "–"
		g.Rows[i] = append(g.Rows[i], cell)
	}
}

// ranks says whether a subject competes: it delays, and it delivered all it promised, in time and once.
func ranks(group []Run) bool {
	return !slices.ContainsFunc(group, func(r Run) bool {
		return r.Undelayed || r.Delivered == 0 || r.faulty() || r.Error != ""
	})
}

// faulty says that messages were lost, early or doubled. After an outage some may come twice: nobody promises more than
// at least once.
func (r Run) faulty() bool {
	return r.Lost+r.Early > 0 || r.Duplicated > 0 && !r.Outage
}

// rowName names the rows of a table: by the subject, and where a scenario was run with several amounts or sizes
// of message, by these too.
func rowName(runs []Run) func(Run) string {
	settings := func(r Run) string { return fmt.Sprintf("%s × %d B", thousands(int64(r.Messages)), r.BodyBytes) }
	several := slices.ContainsFunc(runs, func(r Run) bool {
		return r.Scenario == "backlog" && settings(r) != settings(runs[0])
	})
	if !several {
		return Run.Subject
	}
	return func(r Run) string { return r.Subject() + ", " + settings(r) }
}

// of is the measure of all repetitions of a subject.
func (m measure) of(group []Run) float64 {
	values := make([]float64, len(group))
	sum := 0.0
	for i, run := range group {
		values[i] = m.value(run)
		sum += values[i]
	}
	if m.fault {
		return sum // a median would hide what happened once
	}
	return median(values)
}

func bestOf(values []float64, highest bool) float64 {
	switch {
	case len(values) == 0:
		return 0
	case highest:
		return slices.Max(values)
	}
	return slices.Min(values)
}

// remarks are what the figures of a subject alone do not say.
func remarks(group []Run) []string {
	var out []string
	for _, run := range group {
		if run.Early > 0 {
			out = append(out, fmt.Sprintf("%s: early by up to %.1f ms", run.Subject(), run.EarlyByMS))
		}
		if run.Kept > 0 {
			out = append(out, fmt.Sprintf("%s: %s more found no way while the broker started, and are kept as unroutable",
				run.Subject(), thousands(int64(run.Kept))))
		}
		switch {
		case run.Error != "":
			out = append(out, run.Subject()+": "+run.Error)
		case len(run.Probes) > 0:
			out = append(out, run.Subject()+": "+run.limit())
		case !run.KeptRate():
			out = append(out, fmt.Sprintf("%s: kept %s of %s msg/s; its lateness counts from the schedule",
				run.Subject(), figure(run.PublishPerS), figure(run.Rate)))
		}
	}
	if len(group) > 1 {
		out = append(out, fmt.Sprintf("%s: median of %d runs; publish %s msg/s, p99 %s ms", group[0].Subject(),
			len(group), spread(group, func(r Run) float64 { return r.PublishPerS }),
			spread(group, func(r Run) float64 { return r.Lateness.P99 })))
	}
	return out
}

func spread(group []Run, value func(Run) float64) string {
	lowest, highest := value(group[0]), value(group[0])
	for _, run := range group {
		lowest, highest = min(lowest, value(run)), max(highest, value(run))
	}
	return figure(lowest) + "–" + figure(highest)
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
