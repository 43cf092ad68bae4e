package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A grid is a table as text, ready for any renderer.
type grid struct {
	Title string // "accuracy, quorum queues"
	Head  []column
	Rows  [][]cell
	Notes []string // below the table: failures, rates not kept
}

// A column is the head of a column. Left aligns text; figures are aligned right. Fault columns are
// all zeros if nothing went wrong.
type column struct {
	Name, Unit  string
	Left, Fault bool
}

// A cell is one figure as text. Best marks the winners of its column, Bad what no delay should do.
type cell struct {
	Text string
	Best bool
	Bad  bool
}

// texts is a row of a grid.
func texts(row ...string) []cell {
	out := make([]cell, len(row))
	for i, text := range row {
		out[i].Text = text
	}
	return out
}

// subjects returns a grid whose first column names subjects.
func subjects(title string, head ...column) grid {
	return grid{Title: title, Head: append([]column{{Name: "subject", Left: true}}, head...)}
}

// figures has a row for each subject and a column for each measure of the scenario.
func (t table) figures() grid {
	g := subjects(fmt.Sprintf("%s, %s queues", t.scenario.Name, t.queueType))
	for _, row := range t.rows {
		g.Rows = append(g.Rows, texts(row.name))
		g.Notes = append(g.Notes, row.notes()...)
		g.Notes = append(g.Notes, t.spread(row)...)
	}
	for _, m := range measures {
		known := slices.ContainsFunc(t.rows, func(r row) bool { return len(m.values(r.runs)) > 0 })
		if !m.in(t.scenario.Name) || m.sparing && !known {
			continue
		}
		g.Head = append(g.Head, column{Name: m.name, Unit: m.unit, Fault: m.fault})
		won := make([]bool, len(t.rows))
		if m.ruled(t.scenario.Name) && !m.fault {
			won = m.wins(t.rows, t.fit)
		}
		for i, row := range t.rows {
			v, known := m.of(row.runs)
			g.Rows[i] = append(g.Rows[i], cell{Text: m.text(v, known), Bad: m.fault && v > 0, Best: won[i]})
		}
	}
	return g
}

// notes say what the figures of a row alone do not.
func (r row) notes() []string {
	var out []string
	note := func(format string, args ...any) {
		out = append(out, r.runs[0].Name()+": "+fmt.Sprintf(format, args...))
	}
	for _, run := range r.runs {
		if run.Early > 0 {
			note("early by up to %.1f ms", run.EarlyByMS)
		}
		if run.Kept > 0 {
			note("%s more were unroutable while the broker started, and are kept", format.Thousands(run.Kept))
		}
		if grown := run.MemoryPerMessage * float64(run.Waiting); run.vagueMemory() && grown > 0 {
			note("the broker's %s MB of memory grew by %s MB, too little for a figure",
				format.Figure((float64(run.BrokerRSS)-grown)/1e6), format.Figure(grown/1e6))
		} else if run.vagueMemory() {
			note("the broker's memory did not grow: no figure")
		}
		switch {
		case run.Error != "":
			note("%s", run.Error)
		case len(run.Probes) > 0:
			note("%s", limit(run))
		case !run.keptRate():
			note("kept %s of %s msg/s; its lateness counts from the schedule", format.Figure(run.PublishPerS), format.Figure(run.Rate))
		}
	}
	return out
}

// spread says between which figures the repetitions of a row lie.
func (t table) spread(r row) []string {
	var each []string
	for _, m := range measures {
		if _, lowest, highest := m.spread(r.runs); m.in(t.scenario.Name) && !m.fault && highest > lowest {
			each = append(each, m.name+" "+format.Figure(lowest)+"–"+format.Figure(highest))
		}
	}
	if len(each) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: medians of %d runs, between %s", r.name, len(r.runs), strings.Join(each, ", "))}
}

// lowestFailed is the lowest rate that failed above the highest that passed, if one did.
func lowestFailed(r Run) (lowest Probe, failed bool) {
	for _, p := range r.Probes {
		if !p.Passed && p.Rate > r.MaxRate && (!failed || p.Rate < lowest.Rate) {
			lowest, failed = p, true
		}
	}
	return lowest, failed
}

// closer is how far apart the two ends of a finished search are, and some more for rounding.
const closer = 1.06

// limit says between which rates the limit is, and what happened above it.
func limit(r Run) string {
	lowest, failed := lowestFailed(r)
	if !failed {
		return "no rate that was tried failed"
	}
	text := fmt.Sprintf("at %s msg/s %s", format.Figure(lowest.Rate), lowest.failure())
	if r.noRate() {
		return text + "; nothing lower was tried"
	}
	text = fmt.Sprintf("the limit is between %s and %s msg/s: ", format.Figure(r.MaxRate), format.Figure(lowest.Rate)) + text
	if lowest.Rate > closer*r.MaxRate {
		text += "; there was no time to look closer"
	}
	return text
}

// failure says why a probe failed.
func (p Probe) failure() string {
	switch p.Reason {
	case "late":
		return fmt.Sprintf("p99 was %s ms late", format.Figure(p.Lateness.P99))
	case "confirms":
		return "confirms came too slowly"
	case "generator":
		return "the benchmark itself could not keep the rate"
	case "publisher":
		return "publishing fell behind"
	}
	return "messages were lost, doubled or early, or could not be published"
}

// delays has the lateness of each delay, if there were several.
func (t table) delays() grid {
	return t.detail("delay", "p50 / p99 late in ms, by delay", func(r Run) (head, cells []string) {
		if len(r.LatenessByStep) < 2 || r.closedLoop() {
			return nil, nil
		}
		for _, step := range r.LatenessByStep {
			head = append(head, duration(step.DelayMS).String())
			cells = append(cells, format.Figure(step.Lateness.P50)+" / "+format.Figure(step.Lateness.P99))
		}
		return head, cells
	})
}

// hops has the cost and the lateness of each number of set bits.
func (t table) hops() grid {
	return t.detail("set bits", "broker CPU in µs/msg · p99 late in ms · queues that the message waits in, by set bits of the delay", func(r Run) (head, cells []string) {
		for _, cost := range r.ByHops {
			cpu := "–"
			if cost.BrokerCPU > 0 {
				cpu = format.Figure(cost.BrokerCPU)
			}
			head = append(head, fmt.Sprint(cost.Hops))
			queues := "–"
			if cost.Queues > 0 {
				queues = format.Figure(cost.Queues)
			}
			cells = append(cells, cpu+" · "+format.Figure(cost.Lateness.P99)+" · "+queues)
		}
		return head, cells
	})
}

// detail has a row for each subject's first run. Rows with other columns than the first are left
// out: some delay did not arrive at all.
func (t table) detail(by, note string, of func(Run) (head, cells []string)) grid {
	g := subjects(fmt.Sprintf("%s by %s, %s queues", t.scenario.Name, by, t.queueType))
	g.Notes = []string{note + "; first repetition"}
	var columns []string
	for _, row := range t.rows {
		head, cells := of(row.runs[0])
		if columns == nil {
			columns = head
			for _, name := range head {
				g.Head = append(g.Head, column{Name: name})
			}
		}
		if len(head) > 0 && slices.Equal(head, columns) {
			g.Rows = append(g.Rows, texts(append([]string{row.name}, cells...)...))
		}
	}
	return g
}
