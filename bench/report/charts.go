package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// A figure is a chart, or several with the same axes, with its table.
type figure struct {
	ID       string
	Title    string
	Key      string // how to read it
	Pictures []template.HTML
	Small    bool // small multiples
	Table    grid
}

// A chart makes a figure of a scenario, or nil if the runs do not hold what it would show.
type chart func(id string, t table) *figure

// charts are the figures of each scenario. A scenario without an entry is shown as a table.
var charts = map[string][]chart{
	"accuracy": {distribution, byDelay, brokerCPU.chart},
	"cost":     {brokerCPU.chart, throughput.chart},
	"hol":      {blocking},
	"hol-mix":  {blocking},
	"burst":    {drain.chart, distribution},
	"rate":     {probes},
	"backlog":  {memory.chart, disk.chart, distribution},
	"hops":     {hopCost, hopLateness},
	"crash":    {losses, downtime.chart},
	"recovery": {downtime.chart, distribution},
}

// figuresOf are all figures of a table.
func figuresOf(id string, t table) []figure {
	var out []figure
	for i, chart := range charts[t.scenario.Name] {
		if f := chart(fmt.Sprintf("%s-%d", id, i+1), t); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// class is the colour of a subject: late ones and baselines stand out.
func class(r Run) string {
	switch {
	case late(r):
		return "bad"
	case r.Baseline:
		return "baseline"
	}
	return "ours"
}

const keyLate = "The summit is the median. ● p50, ❘ p90 and ◆ p99 stand at their values, which are on the right; the scale is logarithmic. Further left is better."

func distribution(id string, t table) *figure {
	f := figure{ID: id, Title: "How late", Key: keyLate, Table: subjects("How late, "+t.grid.Title, lateColumns("p50")...)}
	var rows []mountain
	for _, row := range t.rows {
		if run := row.first(); run.Delivered > 0 && !run.closedLoop() {
			f.Table.Rows = append(f.Table.Rows, texts(append([]string{row.name}, run.Lateness.texts()...)...))
			rows = append(rows, mountain{row.name, class(run), run.Lateness, run.Distribution})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	f.Pictures = []template.HTML{mountains(id, f.Table.Title, rows)}
	return &f
}

// A barChart draws a measure as bars.
type barChart struct{ measure, title, key string }

var (
	brokerCPU  = barChart{"CPU", "What a message costs the broker", "Processor time a message; shorter is better."}
	throughput = barChart{"publish", "How fast it takes them", "Confirmed messages a second; longer is better."}
	drain      = barChart{"drained in", "Until the last of the burst arrived", "Counted from when all were due; shorter is better."}
	memory     = barChart{"memory", "Memory of a waiting message", "By how much the broker grew, a message; shorter is better."}
	disk       = barChart{"disk", "Disk of a waiting message", "By how much the broker's folder grew, a message; shorter is better."}
	downtime   = barChart{"serves after", "Until it serves again", "From when the broker is told to end to the first confirm; shorter is better."}
)

// chart draws a bar for each subject that has the figure.
func (b barChart) chart(id string, t table) *figure {
	return barFigure(id, b.title, b.key, t, b.rows(t))
}

func (b barChart) rows(t table) []bar {
	m := find(b.measure)
	var rows []bar
	for _, row := range t.rows {
		if middle, low, high := m.spread(row.runs); middle > 0 {
			rows = append(rows, bar{row.name, class(row.first()), middle,
				format.Figure(middle) + " " + strings.TrimSuffix(m.unit, "/msg"), low, high})
		}
	}
	return rows
}

func barFigure(id, title, key string, t table, rows []bar) *figure {
	if len(rows) == 0 {
		return nil
	}
	f := figure{ID: id, Title: title, Key: key, Table: subjects(title+", "+t.grid.Title, column{Name: "figure"})}
	several := slices.ContainsFunc(rows, func(b bar) bool { return b.high > b.low })
	if several {
		f.Table.Head = append(f.Table.Head, column{Name: "lowest"}, column{Name: "highest"})
	}
	for _, b := range rows {
		row := texts(b.name, b.text)
		if several {
			row = append(row, texts(format.Figure(b.low), format.Figure(b.high))...)
		}
		f.Table.Rows = append(f.Table.Rows, row)
	}
	f.Pictures = []template.HTML{bars(id, f.Table.Title, rows)}
	return &f
}

// losses has a bar for subjects that lost nothing too: that is the point.
func losses(id string, t table) *figure {
	var rows []bar
	for _, row := range t.rows {
		var sum Counts
		for _, run := range row.runs {
			sum.Lost, sum.Published, sum.Duplicated = sum.Lost+run.Lost, sum.Published+run.Published, sum.Duplicated+run.Duplicated
		}
		if sum.Published == 0 {
			continue
		}
		of := format.Thousands(sum.Published)
		text := fmt.Sprintf("%s of %s lost", format.Thousands(sum.Lost), of)
		if sum.Lost == 0 {
			text = "✓ nothing of " + of + " lost"
		}
		if sum.Duplicated > 0 {
			text += ", " + format.Thousands(sum.Duplicated) + " twice"
		}
		rows = append(rows, bar{name: row.name, class: "bad", value: float64(sum.Lost), text: text})
	}
	return barFigure(id, "Lost when the broker was killed", "Confirmed messages that never arrived; shorter is better.", t, rows)
}
