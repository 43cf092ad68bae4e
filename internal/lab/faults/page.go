package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Markers enclose the tables in the documentation.
const (
	beginTable = "<!-- make faults: begin -->"
	endTable   = "<!-- make faults: end -->"
)

const (
	sectionHead = "\n### "
	tableHead   = "| fault | backend | queues | sent | confirmed | delivered | kept as unroutable | twice | early | missing | longest outage | latest | after the end |\n" +
		"|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)

// UpdatePage writes rows between the markers of a file, into the section of a broker. run says when
// and how they were made. Rows of other faults in that section stay, with what was said of their
// run: a campaign may be made in parts.
func UpdatePage(path, broker, run string, rows []Row) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("faults: %w", err)
	}
	updated, err := updated(string(old), broker, run, rows)
	if err != nil {
		return fmt.Errorf("faults: %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(updated), 0o644)
}

func updated(page, broker, run string, rows []Row) (string, error) {
	before, rest, found := strings.Cut(page, beginTable)
	inside, after, closed := strings.Cut(rest, endTable)
	if !found || !closed {
		return "", fmt.Errorf("no %q followed by %q", beginTable, endTable)
	}
	sections := strings.Split(strings.TrimRight(inside, "\n"), sectionHead)[1:]
	at := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, broker+"\n") })
	if at < 0 {
		at, sections = len(sections), append(sections, broker+"\n")
	}
	sections[at] = broker + "\n" + section(parse(sections[at]), run, rows)
	var b strings.Builder
	for _, s := range sections {
		b.WriteString(sectionHead + strings.Trim(s, "\n") + "\n")
	}
	return before + beginTable + "\n" + b.String() + "\n" + endTable + after, nil
}

// An entry is what a section has of one fault.
type entry struct {
	fault string
	run   string
	lines []string // of the table
}

// parse reads a section as it was written: lists of faults by run, and the table.
func parse(section string) (entries []entry) {
	runs := map[string]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimRight(line, "\n")
		if list, run, ok := strings.Cut(strings.TrimPrefix(line, "- "), ": by "); ok && strings.HasPrefix(line, "- ") {
			for fault := range strings.SplitSeq(list, ", ") {
				runs[fault] = run
			}
		}
		cells := strings.Split(line, " | ")
		fault, isRow := strings.CutPrefix(cells[0], "| ")
		if run, known := runs[fault]; isRow && known {
			entries = add(entries, fault, run, padded(line))
		}
	}
	return entries
}

// padded fills a row that was written when the table had fewer columns.
func padded(line string) string {
	_, rule, _ := strings.Cut(tableHead, "\n")
	missing := strings.Count(rule, "|") - strings.Count(line, "|")
	return line + strings.Repeat(" – |", max(0, missing))
}

func add(entries []entry, fault, run, line string) []entry {
	at := slices.IndexFunc(entries, func(e entry) bool { return e.fault == fault })
	if at < 0 {
		at, entries = len(entries), append(entries, entry{fault: fault, run: run})
	}
	entries[at].lines = append(entries[at].lines, line)
	return entries
}

// section puts the rows in place of those of the same faults, and writes all.
func section(old []entry, run string, rows []Row) string {
	var fresh []entry
	for _, r := range rows {
		fresh = add(fresh, r.Fault.Name, run, r.markdown())
	}
	for _, f := range fresh {
		if at := slices.IndexFunc(old, func(e entry) bool { return e.fault == f.fault }); at >= 0 {
			old[at] = f
		} else {
			old = append(old, f)
		}
	}
	var runs []string
	faults := map[string][]string{}
	var table strings.Builder
	for _, e := range old {
		if !slices.Contains(runs, e.run) {
			runs = append(runs, e.run)
		}
		faults[e.run] = append(faults[e.run], e.fault)
		table.WriteString(strings.Join(e.lines, "\n") + "\n")
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "- %s: by %s\n", strings.Join(faults[r], ", "), r)
	}
	return b.String() + "\n" + tableHead + table.String()
}

// markdown is a row of the table.
func (r Row) markdown() string {
	a := r.Totals
	delivered, missing := fmt.Sprint(a.Delivered), fmt.Sprint(len(a.Missing))
	if a.Cancelled > 0 {
		delivered += fmt.Sprintf(" (+%d cancelled)", a.Cancelled)
	}
	if a.Deleted > 0 {
		missing += fmt.Sprintf(" (+%d deleted)", a.Deleted)
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %d | %s | %d | %d | %d | %s | %s | %s | %s |",
		r.Fault.Name, r.Subject, r.QueueType, a.Sent, a.Confirmed, delivered, a.Kept, a.Twice, len(a.Early), missing,
		seconds(a.Outage), seconds(a.LatestBy), seconds(a.AfterEnd))
}
