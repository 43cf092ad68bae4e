package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tables are the tables of the page. They are read back to keep the results of older runs.
type tables struct {
	runs  []runRow
	cells map[cellID]string
}

// A runRow is one suite on one target, or a target that was skipped.
type runRow struct{ target, suite, broker, day, saw string }

// A cellID is a place in the table of a suite.
type cellID struct{ suite, row, target string }

const none = "–"

// tablesOf returns the tables of this run.
func tablesOf(reports []report) tables {
	t := tables{cells: map[cellID]string{}}
	for _, r := range reports {
		if r.skipped != "" {
			t.runs = append(t.runs, runRow{r.target.name, none, none, none, "skipped: " + r.skipped})
		}
		for _, s := range r.suites {
			t.runs = append(t.runs, runRow{r.target.name, s.suite, r.broker(s), r.day, s.sum()})
			for row, c := range s.counts {
				t.cells[cellID{s.suite, row, r.target.name}] = c.cell()
			}
		}
	}
	return t
}

// broker is the version, and the image where it is not the official one.
func (r report) broker(s result) string {
	version := cmp.Or(s.version, none)
	if r.image == r.target.image(officialImage) {
		return version
	}
	return fmt.Sprintf("%s (`%s`)", version, r.image)
}

// cell is a count as the table has it.
func (c count) cell() string {
	switch {
	case c.failed > 0:
		return fmt.Sprintf("**%d of %d failed**", c.failed, c.failed+c.passed)
	case c.passed == 0:
		return "not run"
	case c.skipped > 0:
		return fmt.Sprintf("%d, %d skipped", c.passed, c.skipped)
	}
	return fmt.Sprint(c.passed)
}

// String is the tables in Markdown: what was run, and for each suite how many tests passed.
func (t tables) String() string {
	var b strings.Builder
	b.WriteString(row("RabbitMQ", "tests", "version", "day", "what was seen") + rule(5))
	for _, r := range t.runs {
		b.WriteString(row(r.target, r.suite, r.broker, r.day, r.saw))
	}
	for _, s := range suites {
		t.writeSuite(&b, s.name)
	}
	return b.String()
}

// writeSuite writes a row for each backend and queue type, and a column for each target on which
// the suite was run.
func (t tables) writeSuite(b *strings.Builder, suite string) {
	var columns []string
	for _, r := range t.runs {
		if r.suite == suite {
			columns = append(columns, r.target)
		}
	}
	if len(columns) == 0 {
		return
	}
	rows := map[string]bool{}
	for id := range t.cells {
		if id.suite == suite {
			rows[id.row] = true
		}
	}
	b.WriteString("\n" + row(append([]string{suite + ": passed"}, columns...)...) + rule(1+len(columns)))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		cells := []string{name}
		for _, target := range columns {
			cells = append(cells, cmp.Or(t.cells[cellID{suite, name, target}], none))
		}
		b.WriteString(row(cells...))
	}
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
func rule(n int) string          { return "|" + strings.Repeat("---|", n) + "\n" }
