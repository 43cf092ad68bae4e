package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// heading is the report's first line: what was measured, and on what.
func heading(r *Report) string {
	partial := ""
	if r.Partial {
		partial = " (partial: interrupted)"
	}
	return fmt.Sprintf("Delayed messages on %s %s, %s%s", r.Broker.Product, r.Broker.Version, r.Broker.How, partial)
}

// legend explains the units of the tables.
func legend(r *Report) string {
	legend := "Late is arrival minus the time a message was due; p50: half of the messages were at most so late."
	switch {
	case !r.Broker.Measured:
		legend += " The broker is not ours: its processor time is not known."
	case slices.ContainsFunc(r.Runs, func(run Run) bool { return run.BrokerCPU > 0 }):
		legend += fmt.Sprintf(" CPU is the broker's processor time, beyond the %s %% of a core that the idle broker uses.",
			format.Figure(r.Broker.IdleCPU))
	}
	if slices.ContainsFunc(r.Runs, func(run Run) bool { return run.ProcessCPU > 0 }) {
		legend += " Own CPU is this process's: it publishes and consumes, and delays where the controller runs in it. Both is the sum."
	}
	if slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Hops > 0 }) {
		legend += " Queues is in how many a message waits, one after the other, on average."
	}
	if slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Repetition > 1 }) {
		legend += " Lost, twice and early are those of all repetitions together; other figures are medians."
	}
	if r.GeneratorPerS > 0 {
		legend += fmt.Sprintf(" Without a broker the benchmark itself reaches %s msg/s.", format.Figure(r.GeneratorPerS))
	}
	return legend
}

// WriteText writes the tables for a terminal: aligned, units below the names, the winners marked.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", heading(r))
	for _, t := range tables(r) {
		fmt.Fprintf(&b, "\n%s: %s\n%s\n\n", t.grid.Title, t.scenario.Question, wrap(t.scenario.Setup, textWidth))
		t.grid.writeText(&b)
		if len(t.byHops.Rows) > 0 {
			b.WriteString("\n" + t.byHops.Title + "\n\n")
			t.byHops.writeText(&b)
		}
	}
	for _, skip := range r.Skipped {
		fmt.Fprintf(&b, "\n%s\n", wrap(skip.String(), textWidth))
	}
	fmt.Fprintf(&b, "\n%s\n", wrap("* wins by a rule of the verdict. "+legend(r), textWidth))
	writeVerdictText(&b, verdictOf(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeVerdictText has a line for each rule: a table of sentences would not fit.
func writeVerdictText(b *strings.Builder, v verdict) {
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
	fmt.Fprintf(b, "\n%s\n", wrap(v.How, textWidth))
	for _, condition := range v.Job {
		item(condition)
	}
	for _, remark := range v.Remarks {
		fmt.Fprintf(b, "\n%s\n", wrap(remark, textWidth))
	}
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// textWidth is that of the narrowest terminal in common use.
const textWidth = 80

func (g grid) writeText(b *strings.Builder) {
	g, faultless := g.withoutFaults()
	g, left := g.narrowed()
	lines := g.lines()
	widths := g.widths(lines)
	gap := "  "
	if length(widths, gap) > textWidth {
		gap = " "
	}
	for _, line := range lines {
		row := ""
		for i, cell := range line {
			mark := " " // as wide for every cell, so that figures stay below each other
			if cell.Best {
				mark = "*"
			}
			row += gap + pad(cell.Text, widths[i], g.Head[i].Left) + mark
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
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
func (g grid) lines() [][]cell {
	names, units, all := make([]cell, len(g.Head)), make([]cell, len(g.Head)), ""
	for i, column := range g.Head {
		names[i].Text, units[i].Text = column.Name, column.Unit
		all += column.Unit
	}
	if all == "" {
		return append([][]cell{names}, g.Rows...)
	}
	return append([][]cell{names, units}, g.Rows...)
}

// length is that of a line, with a mark after each cell; the last mark may be cut off.
func length(widths []int, gap string) int {
	sum := -1
	for _, width := range widths {
		sum += len(gap) + width + 1
	}
	return sum
}

// narrowed leaves out the columns that matter least on a terminal until the lines fit, and names
// them.
func (g grid) narrowed() (lean grid, left []string) {
	lean = g
	for _, name := range []string{"network", "written", "own CPU", "p90", "queues", "max"} {
		if length(lean.widths(lean.lines()), " ") <= textWidth {
			break
		}
		next := lean.keep(func(c column) bool { return c.Name != name })
		if len(next.Head) < len(lean.Head) {
			lean, left = next, append(left, name)
		}
	}
	return lean, left
}

// keep is the table with only some of its columns.
func (g grid) keep(wanted func(column) bool) grid {
	lean := g
	lean.Head, lean.Rows = nil, make([][]cell, len(g.Rows))
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
func (g grid) withoutFaults() (lean grid, faultless bool) {
	lean = g.keep(func(c column) bool { return !c.Fault })
	for _, row := range g.Rows {
		for i, cell := range row {
			if g.Head[i].Fault && cell.Text != "0" {
				return g, false
			}
		}
	}
	return lean, len(lean.Head) < len(g.Head)
}

func (g grid) widths(lines [][]cell) []int {
	widths := make([]int, len(g.Head))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	return widths
}

func pad(text string, width int, left bool) string {
	if left {
		width = -width
	}
	return fmt.Sprintf("%*s", width, text)
}

// indented wraps text so that all but its first line begin with so many spaces.
func indented(text string, by int) string {
	return strings.ReplaceAll(wrap(text, textWidth-by), "\n", "\n"+strings.Repeat(" ", by))
}

// wrap breaks text at spaces so that no line is longer than width, long words aside.
func wrap(text string, width int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line+" "+word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return strings.Join(append(lines, line), "\n")
}
