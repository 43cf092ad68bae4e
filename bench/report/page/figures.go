package page

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/internal/format"
	"github.com/delayer-go/delayer/bench/report"
)

// A figure is a chart, or several with the same axes, with what it says and its table.
type figure struct {
	ID       string
	Title    string
	Key      string // how to read it
	Pictures []template.HTML
	Small    bool // small multiples
	Table    report.Grid
}

// A chart makes a scenario's figures; there are none where the runs do not hold what they would
// show.
type chart func(id string, t report.Table) []figure

// charts are the pictures of each scenario. One without an entry is shown as a table.
var charts = map[string][]chart{
	"accuracy": {distribution, brokerCPU.chart, throughput.chart, byDelay},
	"hol":      {blocking},
	"hol-mix":  {blocking},
	"burst":    {drain.chart, distribution},
	"rate":     {probes},
	"backlog":  {memory.chart, disk.chart, distribution},
	"hops":     {hopCost, hopLateness},
	"crash":    {losses, downtime.chart},
	"recovery": {downtime.chart, distribution},
}

// figuresOf are all figures of a table of runs; the first holds the table, if there is any.
func figuresOf(id string, t report.Table) []figure {
	var out []figure
	for i, make := range charts[t.Scenario.Name] {
		out = append(out, make(fmt.Sprintf("%s-%d", id, i+1), t)...)
	}
	return out
}

// class colours what is measured by what it is to the reader.
func class(r bench.Run) string {
	switch {
	case report.Late(r):
		return "bad"
	case r.Baseline:
		return "baseline"
	}
	return "ours"
}

const keyLate = "The summit is the median. ● p50, ❘ p90 and ◆ p99 stand at their values, which are on the right; the scale is logarithmic. Further left is better."

func distribution(id string, t report.Table) []figure {
	var rows []mountain
	table := report.Grid{Title: "How late, " + t.Grid.Title, Head: []report.Column{{Name: "subject", Left: true},
		{Name: "p50", Unit: "ms"}, {Name: "p90", Unit: "ms"}, {Name: "p99", Unit: "ms"}, {Name: "max", Unit: "ms"}}}
	for _, row := range t.Rows {
		run := row.First()
		if run.Delivered == 0 {
			continue
		}
		l := run.Lateness
		table.Rows = append(table.Rows, report.Texts(row.Name, format.Figure(l.P50), format.Figure(l.P90), format.Figure(l.P99), format.Figure(l.Max)))
		rows = append(rows, mountain{name: row.Name, class: class(run), late: run.Lateness, quantiles: run.Distribution})
	}
	if len(rows) == 0 {
		return nil
	}
	title := "How late"
	return []figure{{ID: id, Title: title, Key: keyLate, Table: table,
		Pictures: []template.HTML{mountains(id, title+", "+t.Grid.Title, rows)}}}
}

// A measure is a figure to draw as bars.
type measure struct {
	title, key, unit string
	value            func(bench.Run) float64
}

// chart draws a bar for each subject that has the figure.
func (m measure) chart(id string, t report.Table) []figure {
	rows := m.rows(t)
	if len(rows) == 0 {
		return nil
	}
	return []figure{{ID: id, Title: m.title, Key: m.key, Table: barTable(m.title+", "+t.Grid.Title, rows),
		Pictures: []template.HTML{bars(id, m.title+", "+t.Grid.Title, rows)}}}
}

func (m measure) rows(t report.Table) []bar {
	var rows []bar
	for _, row := range t.Rows {
		middle, low, high := row.Median(m.value)
		if middle > 0 {
			rows = append(rows, bar{name: row.Name, class: class(row.First()), value: middle, low: low, high: high,
				text: format.Figure(middle) + " " + m.unit})
		}
	}
	return rows
}

var (
	brokerCPU = measure{"What a message costs the broker", "Processor time a message; shorter is better.", "µs",
		func(r bench.Run) float64 { return r.BrokerCPU }}
	throughput = measure{"How fast it takes them", "Confirmed messages a second; longer is better.", "msg/s", published}
	drain      = measure{"Until the last of the burst arrived", "Counted from when all were due; shorter is better.", "ms",
		func(r bench.Run) float64 { return r.DrainMS }}
	memory = measure{"Memory of a waiting message", "By how much the broker grew, a message; shorter is better.", "B",
		func(r bench.Run) float64 { return r.MemoryPerMessage }}
	disk = measure{"Disk of a waiting message", "By how much the broker's folder grew, a message; shorter is better.", "B",
		func(r bench.Run) float64 { return r.DiskPerMessage }}
	downtime = measure{"Until it serves again", "From the end of the broker to the first confirm; shorter is better.", "ms",
		func(r bench.Run) float64 { return r.ServesMS }}
)

// published is 0 where a rate was asked for: that is no result.
func published(r bench.Run) float64 {
	if r.Rate > 0 {
		return 0
	}
	return r.PublishPerS
}

// losses shows what nobody lost too: that is the point.
func losses(id string, t report.Table) []figure {
	var rows []bar
	for _, row := range t.Rows {
		lost := row.Sum(func(r bench.Run) int { return r.Lost })
		of := row.Sum(func(r bench.Run) int { return r.Published })
		if of == 0 {
			continue
		}
		b := bar{name: row.Name, class: "bad", value: float64(lost), text: fmt.Sprintf("%s of %s lost", whole(lost), whole(of))}
		if lost == 0 {
			b.text = "✓ nothing of " + whole(of) + " lost"
		}
		if twice := row.Sum(func(r bench.Run) int { return r.Duplicated }); twice > 0 {
			b.text += ", " + whole(twice) + " twice"
		}
		rows = append(rows, b)
	}
	if len(rows) == 0 {
		return nil
	}
	title := "Lost when the broker was killed"
	return []figure{{ID: id, Title: title, Key: "Confirmed messages that never arrived; shorter is better.",
		Table:    barTable(title+", "+t.Grid.Title, rows),
		Pictures: []template.HTML{bars(id, title+", "+t.Grid.Title, rows)}}}
}

// barTable holds what bars show, with the range of the repetitions where there are any.
func barTable(title string, rows []bar) report.Grid {
	g := report.Grid{Title: title, Head: []report.Column{{Name: "subject", Left: true}, {Name: "figure"}}}
	several := slices.ContainsFunc(rows, func(b bar) bool { return b.high > b.low })
	if several {
		g.Head = append(g.Head, report.Column{Name: "lowest"}, report.Column{Name: "highest"})
	}
	for _, b := range rows {
		row := report.Texts(b.name, b.text)
		if several {
			row = append(row, report.Texts(format.Figure(b.low), format.Figure(b.high))...)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func whole(n int) string {
	if n < 10 {
		return fmt.Sprint(n)
	}
	return format.Figure(float64(n))
}
