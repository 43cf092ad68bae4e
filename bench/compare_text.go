package bench

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes what changed as a table, then what could not be compared, and a line that sums it up.
func (c Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, difference := range c.Settings {
		fmt.Fprintf(&b, "! %s\n", indented(difference, 2))
	}
	if len(c.Settings) > 0 {
		b.WriteString("\n")
	}
	if grid, changed := c.grid(); changed {
		grid.writeText(&b)
		b.WriteString("\n")
	}
	for _, only := range []struct {
		where string
		runs  []string
	}{{"first", c.OnlyA}, {"second", c.OnlyB}} {
		for _, run := range only.runs {
			fmt.Fprintf(&b, "only in the %s report: %s\n", only.where, run)
		}
	}
	fmt.Fprintln(&b, c.Summary())
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary is one line: how many figures got worse, better, or stayed.
func (c Comparison) Summary() string {
	worse, better := 0, 0
	for _, ch := range c.Changes {
		switch {
		case ch.Beyond && ch.Worse:
			worse++
		case ch.Beyond:
			better++
		}
	}
	return fmt.Sprintf("%s worse, %d better, %d within %s.", plural(worse, "figure"), better, len(c.Changes)-worse-better,
		figureOfPart(c.Tolerance))
}

// grid holds the changes beyond the tolerance; false if there are none.
func (c Comparison) grid() (Grid, bool) {
	g := Grid{Head: []Column{
		{Name: "scenario", Left: true}, {Name: "subject", Left: true}, {Name: "queues", Left: true},
		{Name: "figure", Left: true}, {Name: "before"}, {Name: "after"}, {Name: "", Left: true}, {Name: "change"}, {Name: "", Left: true},
	}}
	for _, ch := range c.Changes {
		if !ch.Beyond {
			continue
		}
		text := figure
		if ch.fault {
			text = whole
		}
		var row []Cell
		for _, cell := range []string{ch.Scenario, ch.Subject, ch.QueueType, ch.Figure, text(ch.Before), text(ch.After),
			ch.Unit, ch.change(), ch.word()} {
			row = append(row, Cell{Text: cell})
		}
		g.Rows = append(g.Rows, row)
	}
	return g, len(g.Rows) > 0
}

func (ch Change) change() string {
	if ch.Before == 0 {
		return "new"
	}
	if ch.After == 0 {
		return "gone"
	}
	sign := "+"
	if ch.Part < 0 {
		sign = "−"
	}
	return sign + figureOfPart(max(ch.Part, -ch.Part))
}

func (ch Change) word() string {
	if ch.Worse {
		return "worse"
	}
	return "better"
}

func figureOfPart(part float64) string { return thousands(int64(100*part+0.5)) + " %" }
