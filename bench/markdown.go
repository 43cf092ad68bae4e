package bench

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// writeVerdict puts the conclusion before what it was drawn from.
func (r *Report) writeVerdict(b *strings.Builder) {
	verdict := r.Verdict()
	b.WriteString("\n## Verdict\n\n")
	for _, sentence := range verdict.Sentences() {
		fmt.Fprintf(b, "- %s\n", sentence)
	}
	for _, choice := range verdict.Choices {
		fmt.Fprintf(b, "\n### %s\n\n", choice.Grid.Title)
		choice.Grid.writeMarkdown(b)
	}
}

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
	r.writeVerdict(&b)
	for _, grid := range append(r.Grids(), r.ByDelay()...) {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s.\n\n", grid.Title, grid.Question, grid.Setup)
		grid.writeMarkdown(&b)
	}
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
