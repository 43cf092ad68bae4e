package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/lib/format"
)

// WriteText writes the tables for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	partial := ""
	if r.Partial {
		partial = " (partial: interrupted)"
	}
	b.WriteString(format.Wrap("", "", fmt.Sprintf("Delayed messages on %s %s, %s%s",
		r.Broker.Product, r.Broker.Version, r.Broker.How, partial)))
	for _, t := range tables(r, false) {
		fmt.Fprintf(&b, "\n%s, %s queues: %s\n%s\n", t.Name, t.QueueType, t.Question, format.Wrap("", "", t.Setup))
		t.writeText(&b)
		for _, note := range t.Notes() {
			b.WriteString(format.Wrap("  ! ", "    ", note))
		}
	}
	for _, skip := range r.Skipped {
		b.WriteString("\n" + format.Wrap("", "", skip.String()))
	}
	faulty := func(run Run) bool { return run.Lost+run.Duplicated+run.Early > 0 }
	if len(r.Runs) > 0 && !slices.ContainsFunc(r.Runs, faulty) {
		b.WriteString("\nNo message was lost, delivered twice or early.\n")
	}
	b.WriteString("\n" + format.Wrap("", "", r.legend()))
	for _, problem := range r.Problems() {
		b.WriteString(format.Wrap("  ! ", "    ", problem))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) legend() string {
	said := []string{"Late is arrival minus the time a message was due; p50: half of the messages were at most so late."}
	some := func(is func(Run) bool) bool { return slices.ContainsFunc(r.Runs, is) }
	if !r.Broker.Measured {
		said = append(said, "The broker is not ours: its processor time is not known.")
	} else if some(func(run Run) bool { return run.BrokerCPU > 0 }) {
		said = append(said, fmt.Sprintf("Broker CPU is the broker's processor time for a message, beyond the %s %% of a core that it uses when idle.",
			format.Figure(r.Broker.IdleCPU)))
	}
	if some(func(run Run) bool { return run.ProcessCPU > 0 }) {
		said = append(said, "Client CPU is this process's: it publishes and consumes, and runs the controller.")
	}
	if some(func(run Run) bool { return run.Hops > 0 }) {
		said = append(said, "Queues is in how many a message waits, one after the other.")
	}
	if some(func(run Run) bool { return run.Repetition > 1 }) {
		said = append(said, "Figures are medians of the repetitions, and below them the lowest and the highest: where two ranges overlap, the difference may be chance.")
	} else {
		said = append(said, "Each was run once: --repeat shows how much a figure varies.")
	}
	return strings.Join(said, " ")
}

// writeText writes a line of medians for each row, and a line of ranges if there are repetitions.
func (t table) writeText(b *strings.Builder) {
	names, units := []string{""}, []string{""}
	for _, m := range t.Columns {
		names, units = append(names, m.name), append(units, m.unit)
	}
	lines := [][]string{names, units}
	for _, row := range t.Rows {
		medians, ranges, several := []string{row.Name}, []string{""}, false
		for _, c := range row.Cells {
			medians, ranges = append(medians, c.Median), append(ranges, c.Between)
			several = several || c.Between != ""
		}
		lines = append(lines, medians)
		if several {
			lines = append(lines, ranges)
		}
	}
	widths := make([]int, len(names))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for _, line := range lines {
		text := fmt.Sprintf("%-*s", widths[0], line[0])
		for i := 1; i < len(line); i++ {
			text += fmt.Sprintf("  %*s", widths[i], line[i])
		}
		b.WriteString("  " + strings.TrimRight(text, " ") + "\n")
	}
}
