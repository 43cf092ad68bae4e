package report

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes report.md: the verdict and the tables for a wiki, with winners in bold. It
// is legible as plain text too.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", heading(r))
	for _, f := range facts(r) {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, f.Value)
	}
	if r.Command != "" {
		fmt.Fprintf(&b, "\n    %s\n", r.Command)
	}
	if len(r.Subjects) > 0 {
		b.WriteString("\n")
	}
	for _, s := range r.named() {
		fmt.Fprintf(&b, "- **%s**: %s.\n", s.Name, s.About)
	}
	writeVerdict(&b, verdictOf(r))
	for _, t := range tables(r) {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s.\n\n", t.grid.Title, t.scenario.Question, t.scenario.Setup)
		t.grid.writeMarkdown(&b)
		for _, detail := range []grid{t.byHops, t.byDelay} {
			if len(detail.Rows) > 0 {
				fmt.Fprintf(&b, "\n### %s\n\n", detail.Title)
				detail.writeMarkdown(&b)
			}
		}
	}
	for _, skip := range r.Skipped {
		fmt.Fprintf(&b, "\n%s.\n", skip)
	}
	fmt.Fprintf(&b, "\n**Bold** wins by a rule of the verdict. %s\n", legend(r))
	_, err := io.WriteString(w, b.String())
	return err
}

func writeVerdict(b *strings.Builder, v verdict) {
	fmt.Fprintf(b, "\n## Verdict\n\n%s\n\n", v.How)
	for _, condition := range v.Job {
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

func (g grid) writeMarkdown(b *strings.Builder) {
	head := make([]cell, len(g.Head))
	for i, column := range g.Head {
		head[i].Text = column.Name
		if column.Unit != "" {
			head[i].Text += " (" + column.Unit + ")"
		}
	}
	lines := [][]cell{head}
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

func boldBest(row []cell) []cell {
	out := make([]cell, len(row))
	for i, cell := range row {
		cell.Text = strings.ReplaceAll(cell.Text, "|", `\|`)
		if cell.Best {
			cell.Text = "**" + cell.Text + "**"
		}
		out[i] = cell
	}
	return out
}

func writeRule(b *strings.Builder, head []column, widths []int) {
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
