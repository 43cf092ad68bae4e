package bench

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteMarkdown writes the report as report.md: tables that fit into a wiki, best in bold, and also
// legible as plain text.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.Heading())
	fmt.Fprintf(&b, "%s, %d s on %d cores (%s/%s, %s).\n", r.Started.UTC().Format(time.RFC1123),
		int(r.Seconds), r.Machine.CPUs, r.Machine.OS, r.Machine.Arch, r.Machine.Go)
	if r.Command != "" {
		fmt.Fprintf(&b, "\n    %s\n", r.Command)
	}
	for _, grid := range r.Grids() {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s.\n\n", grid.Title, grid.Question, grid.Setup)
		grid.writeMarkdown(&b)
	}
	r.writeByDelay(&b)
	for _, skip := range r.Skipped {
		fmt.Fprintf(&b, "\n%s.\n", skip)
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Replace(r.Legend(), "* best", "**Bold**: best", 1))
	_, err := io.WriteString(w, b.String())
	return err
}

func (g Grid) writeMarkdown(b *strings.Builder) {
	head := make([]Cell, len(g.Head))
	for i, column := range g.Head {
		head[i].Text = column.Name
		if column.Unit != "" {
			head[i].Text += " (" + column.Unit + ")"
		}
	}
	lines := [][]Cell{head}
	for _, row := range g.Rows {
		lines = append(lines, boldBest(row))
	}
	widths := g.widths(lines)
	for n, line := range lines {
		for i, cell := range line {
			b.WriteString("| " + pad(cell.Text, widths[i], g.Head[i].Left) + " ")
		}
		b.WriteString("|\n")
		if n == 0 {
			writeRule(b, g.Head, widths)
		}
	}
	for _, note := range g.Notes {
		b.WriteString("\n- " + note)
	}
	if len(g.Notes) > 0 {
		b.WriteString("\n")
	}
}

func boldBest(row []Cell) []Cell {
	out := make([]Cell, len(row))
	for i, cell := range row {
		cell.Text = strings.ReplaceAll(cell.Text, "|", `\|`)
		if cell.Best {
			cell.Text = "**" + cell.Text + "**"
		}
		out[i] = cell
	}
	return out
}

func writeRule(b *strings.Builder, head []Column, widths []int) {
	for i, column := range head {
		dashes := strings.Repeat("-", widths[i]+1)
		if column.Left {
			b.WriteString("|:" + dashes)
		} else {
			b.WriteString("|" + dashes + ":")
		}
	}
	b.WriteString("|\n")
}

// writeByDelay says how late each delay was, where a scenario has several.
func (r *Report) writeByDelay(b *strings.Builder) {
	for _, group := range groupBy(r.Runs, func(run Run) string { return run.Scenario + run.QueueType }) {
		g := byDelay(group)
		if len(g.Rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\np50 / p99 late in ms, by delay; first repetition\n\n", g.Title)
		g.writeMarkdown(b)
	}
}

func byDelay(runs []Run) Grid {
	g := Grid{
		Title: fmt.Sprintf("%s by delay, %s queues", runs[0].Scenario, runs[0].QueueType),
		Head:  []Column{{Name: "subject", Left: true}},
	}
	for _, run := range runs {
		if run.Repetition > 1 || len(run.LatenessByStep) < 2 {
			continue
		}
		row := []Cell{{Text: run.Subject()}}
		for _, step := range run.LatenessByStep {
			row = append(row, Cell{Text: figure(step.Lateness.P50) + " / " + figure(step.Lateness.P99)})
			if len(g.Rows) == 0 {
				delay := time.Duration(step.DelayMS * float64(time.Millisecond))
				g.Head = append(g.Head, Column{Name: delay.String()})
			}
		}
		// Where some delay did not arrive at all the columns would not match.
		if len(row) == len(g.Head) {
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}
