package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// The command writes between these markers. The rest of the page is written by hand.
const (
	begin = "<!-- matrix: begin -->"
	end   = "<!-- matrix: end -->"
)

// rewrite puts the tables into the page at path. Results of suites and targets that were not run
// now stay.
func rewrite(path string, fresh tables) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := replace(string(page), fresh)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func replace(page string, fresh tables) (string, error) {
	head, rest, ok1 := strings.Cut(page, begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return "", fmt.Errorf("lacks %s or %s", begin, end)
	}
	return head + begin + "\n" + merge(parse(old), fresh).String() + end + tail, nil
}

// parse reads what String wrote.
func parse(text string) tables {
	t := tables{cells: map[cellID]string{}}
	suite, columns := "", []string(nil)
	for line := range strings.SplitSeq(text, "\n") {
		cells := cellsOf(line)
		if len(cells) < 2 || strings.HasPrefix(line, "|---") || cells[0] == "RabbitMQ" {
			continue
		}
		if name, isHead := strings.CutSuffix(cells[0], ": passed"); isHead {
			suite, columns = name, cells[1:]
			continue
		}
		if suite == "" {
			cells = append(cells, none, none, none)
			t.runs = append(t.runs, runRow{cells[0], cells[1], cells[2], cells[3], cells[4]})
			continue
		}
		for i, target := range columns[:min(len(columns), len(cells)-1)] {
			if cells[i+1] != none {
				t.cells[cellID{suite, cells[0], target}] = cells[i+1]
			}
		}
	}
	return t
}

func cellsOf(line string) []string {
	line, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !isRow {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// merge returns the results of fresh, and those of old that fresh did not run. A target that was
// skipped now keeps its old results.
func merge(old, fresh tables) tables {
	t := tables{cells: map[cellID]string{}}
	for _, to := range targets {
		t.runs = append(t.runs, mergeTarget(old.of(to.name), fresh.of(to.name))...)
	}
	for id, cell := range old.cells {
		if !fresh.ran(id.target, id.suite) {
			t.cells[id] = cell
		}
	}
	for id, cell := range fresh.cells {
		t.cells[id] = cell
	}
	return t
}

// mergeTarget has one row for each suite that was ever run, else the row that says why none was.
func mergeTarget(old, fresh []runRow) []runRow {
	var rows []runRow
	for _, s := range suites {
		for _, source := range [][]runRow{fresh, old} {
			at := slices.IndexFunc(source, func(r runRow) bool { return r.suite == s.name })
			if at >= 0 {
				rows = append(rows, source[at])
				break
			}
		}
	}
	if rows == nil && len(fresh) > 0 {
		return fresh[:1]
	}
	if rows == nil {
		return old
	}
	return rows
}

// of are the rows of a target.
func (t tables) of(target string) []runRow {
	return slices.DeleteFunc(slices.Clone(t.runs), func(r runRow) bool { return r.target != target })
}

func (t tables) ran(target, suite string) bool {
	return slices.ContainsFunc(t.runs, func(r runRow) bool { return r.target == target && r.suite == suite })
}
