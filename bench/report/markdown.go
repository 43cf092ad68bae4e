package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench"
)

// WriteMarkdown writes report.md: tables that fit into a wiki, winners in bold, and also legible as
// plain text.
func WriteMarkdown(w io.Writer, r *bench.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", Heading(r))
	fmt.Fprintf(&b, "%s, %d s on %d cores (%s/%s, %s).\n", r.Started.UTC().Format(time.RFC1123),
		int(r.Seconds), r.Machine.CPUs, r.Machine.OS, r.Machine.Arch, r.Machine.Go)
	if r.Command != "" {
		fmt.Fprintf(&b, "\n    %s\n", r.Command)
	}
	writeVerdict(&b, VerdictOf(r))
	for _, t := range Tables(r) {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s.\n\n", t.Grid.Title, t.Scenario.Question, t.Scenario.Setup)
		t.Grid.writeMarkdown(&b)
		for _, detail := range []Grid{t.ByHops, t.ByDelay} {
			if len(detail.Rows) > 0 {
				fmt.Fprintf(&b, "\n### %s\n\n", detail.Title)
				detail.writeMarkdown(&b)
			}
		}
	}
	for _, skip := range r.Skipped {
		fmt.Fprintf(&b, "\n%s.\n", skip)
	}
	fmt.Fprintf(&b, "\n**Bold** wins by a rule of the verdict. %s\n", Legend(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeVerdict puts the conclusion before what it was drawn from.
func writeVerdict(b *strings.Builder, v Verdict) {
	fmt.Fprintf(b, "\n## Verdict\n\n%s\n\n", How)
	for _, condition := range Job() {
		fmt.Fprintf(b, "- %s\n", condition)
	}
	for _, c := range v.Contests {
		fmt.Fprintf(b, "\n### %s\n\n", c.Rules.Title)
		if len(c.Rules.Rows) > 0 {
			c.Rules.writeMarkdown(b)
		}
		if len(c.Unfit) > 0 {
			b.WriteString("\nThese can win nothing:\n\n")
		}
		for _, unfit := range c.Unfit {
			fmt.Fprintf(b, "- %s\n", unfit)
		}
	}
	for _, remark := range v.Remarks {
		fmt.Fprintf(b, "\n%s\n", remark)
	}
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
