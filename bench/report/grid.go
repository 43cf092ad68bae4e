package report

import (
	"fmt"
	"slices"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/internal/format"
)

// A Grid is a table as text, ready for any renderer.
type Grid struct {
	Title string // "accuracy, quorum queues"
	Head  []Column
	Rows  [][]Cell
	Notes []string // below the table: failures, rates not kept
}

// A Column is the head of a column. Left aligns text rather than figures. Fault is a column that is
// all zeros if all is well.
type Column struct {
	Name, Unit  string
	Left, Fault bool
}

// A Cell is one figure as text. Best marks the winners of its column, Bad what no delay should do.
type Cell struct {
	Text string
	Best bool
	Bad  bool
}

// Texts is a row of a grid.
func Texts(row ...string) []Cell {
	out := make([]Cell, len(row))
	for i, text := range row {
		out[i].Text = text
	}
	return out
}

func (t Table) grid() Grid {
	g := Grid{
		Title: fmt.Sprintf("%s, %s queues", t.Scenario.Name, t.QueueType),
		Head:  []Column{{Name: "subject", Left: true}},
	}
	for _, row := range t.Rows {
		g.Rows = append(g.Rows, Texts(row.Name))
		g.Notes = append(g.Notes, row.notes()...)
	}
	for _, m := range measures {
		if m.in(t.Scenario.Name) {
			t.addColumn(&g, m)
		}
	}
	return g
}

func (t Table) addColumn(g *Grid, m measure) {
	g.Head = append(g.Head, Column{Name: m.name, Unit: m.unit, Fault: m.fault})
	won := make([]bool, len(t.Rows))
	if m.ruled(t.Scenario.Name) {
		won = m.wins(t.Rows, t.fit)
	}
	for i, row := range t.Rows {
		v, known := m.of(row.Runs)
		cell := Cell{Text: m.text(v, known), Bad: m.fault && v > 0, Best: won[i] && !m.fault}
		g.Rows[i] = append(g.Rows[i], cell)
	}
}

// notes say what the figures of a row alone do not.
func (row Row) notes() []string {
	var out []string
	name := row.Runs[0].Subject()
	for _, run := range row.Runs {
		if run.Early > 0 {
			out = append(out, fmt.Sprintf("%s: early by up to %.1f ms", name, run.EarlyByMS))
		}
		if run.Kept > 0 {
			out = append(out, fmt.Sprintf("%s: %s more were unroutable while the broker started, and are kept", name, format.Thousands(run.Kept)))
		}
		switch {
		case run.Error != "":
			out = append(out, name+": "+run.Error)
		case len(run.Probes) > 0:
			out = append(out, name+": "+limit(run))
		case !run.KeptRate():
			out = append(out, fmt.Sprintf("%s: kept %s of %s msg/s; its lateness counts from the schedule",
				name, format.Figure(run.PublishPerS), format.Figure(run.Rate)))
		}
	}
	if len(row.Runs) > 1 {
		out = append(out, fmt.Sprintf("%s: median of %d runs; publish %s msg/s, p99 %s ms", name, len(row.Runs),
			row.spread(func(r bench.Run) float64 { return r.PublishPerS }),
			row.spread(func(r bench.Run) float64 { return r.Lateness.P99 })))
	}
	return out
}

func (row Row) spread(value func(bench.Run) float64) string {
	_, lowest, highest := row.Median(value)
	return format.Figure(lowest) + "–" + format.Figure(highest)
}

// lowestFailed is the lowest rate above the highest that passed which failed, if one did.
func lowestFailed(r bench.Run) (lowest bench.Probe, failed bool) {
	for _, p := range r.Probes {
		if !p.Passed && p.Rate > r.MaxRate && (!failed || p.Rate < lowest.Rate) {
			lowest, failed = p, true
		}
	}
	return lowest, failed
}

// limit says what came above the highest rate.
func limit(r bench.Run) string {
	lowest, failed := lowestFailed(r)
	if !failed {
		return "no rate that was tried failed"
	}
	at := fmt.Sprintf("at %s msg/s ", format.Figure(lowest.Rate))
	switch lowest.Reason {
	case bench.TooLate:
		return at + fmt.Sprintf("p99 was %s ms late", format.Figure(lowest.Lateness.P99))
	case bench.TooSlow:
		return at + "publishing fell behind: confirms came too slowly"
	}
	return at + "messages were lost, doubled or early, or could not be published"
}

// byDelay says how late each delay was, where there were several.
func (t Table) byDelay() Grid {
	return t.detail("delay", "p50 / p99 late in ms, by delay", func(r bench.Run) (head, cells []string) {
		if len(r.LatenessByStep) < 2 {
			return nil, nil
		}
		for _, step := range r.LatenessByStep {
			head = append(head, delayText(step.DelayMS))
			cells = append(cells, format.Figure(step.Lateness.P50)+" / "+format.Figure(step.Lateness.P99))
		}
		return head, cells
	})
}

// byHops says what each number of hops cost, and how late it was.
func (t Table) byHops() Grid {
	return t.detail("set bits", "broker CPU in µs/msg · p99 late in ms, by set bits of the delay", func(r bench.Run) (head, cells []string) {
		for _, cost := range r.ByHops {
			cpu := "–"
			if cost.BrokerCPU > 0 {
				cpu = format.Figure(cost.BrokerCPU)
			}
			head = append(head, fmt.Sprint(cost.Hops))
			cells = append(cells, cpu+" · "+format.Figure(cost.Lateness.P99))
		}
		return head, cells
	})
}

// detail has a row for each subject's first run. Rows with other columns than the first are left
// out: some delay did not arrive at all.
func (t Table) detail(by, note string, of func(bench.Run) (head, cells []string)) Grid {
	g := Grid{
		Title: fmt.Sprintf("%s by %s, %s queues", t.Scenario.Name, by, t.QueueType),
		Head:  []Column{{Name: "subject", Left: true}}, Notes: []string{note + "; first repetition"},
	}
	var columns []string
	for _, row := range t.Rows {
		head, cells := of(row.Runs[0])
		if columns == nil {
			columns = head
			for _, name := range head {
				g.Head = append(g.Head, Column{Name: name})
			}
		}
		if len(head) > 0 && slices.Equal(head, columns) {
			g.Rows = append(g.Rows, Texts(append([]string{row.Name}, cells...)...))
		}
	}
	return g
}
