package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/internal/format"
)

// Heading is the report's first line: what was measured, and on what.
func Heading(r *bench.Report) string {
	partial := ""
	if r.Partial {
		partial = " (partial: interrupted)"
	}
	return fmt.Sprintf("Delayed messages on %s %s, %s%s", r.Broker.Product, r.Broker.Version, r.Broker.How, partial)
}

// Legend explains the units of the tables.
func Legend(r *bench.Report) string {
	legend := "Late is arrival minus the time a message was due; p50: half of the messages were at most so late."
	switch {
	case !r.Broker.Measured:
		legend += " The broker is not ours: its processor time is not known."
	case slices.ContainsFunc(r.Runs, func(run bench.Run) bool { return run.BrokerCPU > 0 }):
		legend += fmt.Sprintf(" CPU is the broker's processor time, beyond the %s %% of a core that the idle broker uses.",
			format.Figure(r.Broker.IdleCPU))
	}
	if slices.ContainsFunc(r.Runs, func(run bench.Run) bool { return run.ProcessCPU > 0 }) {
		legend += " Own CPU is this process's: it publishes and consumes, and delays where the controller runs in it."
	}
	if r.GeneratorPerS > 0 {
		legend += fmt.Sprintf(" Without a broker the benchmark itself reaches %s msg/s.", format.Figure(r.GeneratorPerS))
	}
	return legend
}

// WriteText writes the tables for a terminal: aligned, units below the names, the winners marked.
func WriteText(w io.Writer, r *bench.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", Heading(r))
	for _, t := range Tables(r) {
		fmt.Fprintf(&b, "\n%s: %s\n%s\n\n", t.Grid.Title, t.Scenario.Question, wrap(t.Scenario.Setup, textWidth))
		t.Grid.writeText(&b)
		if len(t.ByHops.Rows) > 0 {
			b.WriteString("\n" + t.ByHops.Title + "\n\n")
			t.ByHops.writeText(&b)
		}
	}
	for _, skip := range r.Skipped {
		fmt.Fprintf(&b, "\n%s\n", wrap(skip.String(), textWidth))
	}
	fmt.Fprintf(&b, "\n%s\n", wrap("* wins by a rule of the verdict. "+Legend(r), textWidth))
	writeVerdictText(&b, VerdictOf(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeVerdictText has a line for each rule: a table of sentences would not fit.
func writeVerdictText(b *strings.Builder, v Verdict) {
	item := func(text string) { fmt.Fprintf(b, "- %s\n", indented(text, 2)) }
	for _, c := range v.Contests {
		fmt.Fprintf(b, "\nVerdict, %s\n", c.Rules.Title)
		for _, rule := range c.Rules.Rows {
			item(fmt.Sprintf("%s %s (%s; %s wins)", rule[0].Text, rule[3].Text, rule[1].Text, rule[2].Text))
		}
		for _, unfit := range c.Unfit {
			item("can win nothing: " + unfit)
		}
	}
	fmt.Fprintf(b, "\n%s\n", wrap(How, textWidth))
	for _, condition := range Job() {
		item(condition)
	}
	for _, remark := range v.Remarks {
		fmt.Fprintf(b, "\n%s\n", wrap(remark, textWidth))
	}
}

func delayText(ms float64) string { return time.Duration(ms * float64(time.Millisecond)).String() }

// textWidth is that of the narrowest terminal in common use.
const textWidth = 80

func (g Grid) writeText(b *strings.Builder) {
	g, faultless := g.withoutFaults()
	g, left := g.narrowed()
	lines := g.lines()
	widths := g.widths(lines)
	gap := g.gap(widths)
	for _, line := range lines {
		var row strings.Builder
		for i, cell := range line {
			row.WriteString(gap + pad(cell.Text, widths[i], g.Head[i].Left))
			row.WriteString(mark(cell))
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	if faultless {
		b.WriteString("\n  Nothing was lost, delivered twice or early.\n")
	}
	if len(left) > 0 {
		b.WriteString("  ! no room here for " + strings.Join(left, ", ") + ": see report.md\n")
	}
	for _, note := range g.Notes {
		b.WriteString("  ! " + indented(note, 4) + "\n")
	}
}

// lines are the names of the columns, their units if there are any, and the rows.
func (g Grid) lines() [][]Cell {
	names, units := make([]Cell, len(g.Head)), make([]Cell, len(g.Head))
	for i, column := range g.Head {
		names[i].Text, units[i].Text = column.Name, column.Unit
	}
	lines := [][]Cell{names}
	if slices.ContainsFunc(units, func(c Cell) bool { return c.Text != "" }) {
		lines = append(lines, units)
	}
	return append(lines, g.Rows...)
}

// gap is what separates columns: less where more would make the lines too long.
func (g Grid) gap(widths []int) string {
	if length(widths, len("  ")) > textWidth {
		return " "
	}
	return "  "
}

// length is that of a line, with a mark after each cell.
func length(widths []int, gap int) int {
	sum := -1 // the last mark may be cut off
	for _, width := range widths {
		sum += gap + width + 1
	}
	return sum
}

// narrowed leaves out the columns that a reader of a terminal can best do without, until the lines
// fit, and names them.
func (g Grid) narrowed() (Grid, []string) {
	var left []string
	for _, name := range []string{"own CPU", "p90", "max"} {
		i := slices.IndexFunc(g.Head, func(c Column) bool { return c.Name == name })
		if i < 0 || length(g.widths(g.lines()), 1) <= textWidth {
			continue
		}
		left = append(left, name)
		g = g.keep(func(c Column) bool { return c.Name != name })
	}
	return g, left
}

// keep is the table with only some of its columns.
func (g Grid) keep(wanted func(Column) bool) Grid {
	lean := g
	lean.Head, lean.Rows = nil, make([][]Cell, len(g.Rows))
	for i, column := range g.Head {
		if !wanted(column) {
			continue
		}
		lean.Head = append(lean.Head, column)
		for n, row := range g.Rows {
			lean.Rows[n] = append(lean.Rows[n], row[i])
		}
	}
	return lean
}

// withoutFaults leaves out the columns of faults if there are none: a sentence says as much in less
// room.
func (g Grid) withoutFaults() (Grid, bool) {
	if !slices.ContainsFunc(g.Head, func(c Column) bool { return c.Fault }) {
		return g, false
	}
	for _, row := range g.Rows {
		for i, cell := range row {
			if g.Head[i].Fault && cell.Text != "0" {
				return g, false
			}
		}
	}
	return g.keep(func(c Column) bool { return !c.Fault }), true
}

// mark is as wide for every cell, so that figures stay below each other.
func mark(c Cell) string {
	if c.Best {
		return "*"
	}
	return " "
}

func (g Grid) widths(lines [][]Cell) []int {
	widths := make([]int, len(g.Head))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	return widths
}

func pad(text string, width int, left bool) string {
	space := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
	if left {
		return text + space
	}
	return space + text
}

// indented wraps text so that all but its first line begin with so many spaces.
func indented(text string, by int) string {
	return strings.ReplaceAll(wrap(text, textWidth-by), "\n", "\n"+strings.Repeat(" ", by))
}

// wrap breaks text at spaces so that no line is longer than width, long words aside.
func wrap(text string, width int) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+length > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += length
	}
	return b.String()
}
