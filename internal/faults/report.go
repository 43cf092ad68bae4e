package faults

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Markers enclose the table in the documentation.
const (
	beginTable = "<!-- make faults: begin -->"
	endTable   = "<!-- make faults: end -->"
)

// Heading is what the live table begins with.
func Heading() string {
	return fmt.Sprintf("%-22s %-22s %-8s %7s %9s %9s %5s %6s %5s %7s %8s %8s",
		"fault", "backend", "queues", "sent", "confirmed", "delivered", "kept", "twice", "early", "missing", "outage", "latest")
}

// String is the row of the live table, with what must not be and what was noted below it.
func (r Row) String() string {
	a := r.Account
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %-22s %-8s %7d %9d %9d %5d %6d %5d %7d %8s %8s",
		r.Fault.Name, r.Subject, r.QueueType, a.Sent, a.Confirmed, a.Delivered, a.Kept, a.Twice, len(a.Early), len(a.Missing),
		seconds(a.Outage), seconds(a.LatestBy))
	if a.Deleted > 0 {
		fmt.Fprintf(&b, "  (%d deleted by the operator)", a.Deleted)
	}
	if a.Spoilt > 0 {
		fmt.Fprintf(&b, "  (%d spoilt by the operator, and announced)", a.Spoilt)
	}
	for _, problem := range r.Problems {
		b.WriteString("\n    PROBLEM: " + problem)
	}
	return b.String()
}

// Outcomes says what Publish answered beside nil, most often first.
func (r Row) Outcomes() string {
	type count struct {
		text string
		n    int
	}
	var all []count
	for text, n := range r.Account.Errors {
		all = append(all, count{text, n})
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Or(b.n-a.n, strings.Compare(a.text, b.text)) })
	var lines []string
	for _, c := range all[:min(len(all), 4)] {
		lines = append(lines, fmt.Sprintf("    %6d × %s", c.n, c.text))
	}
	return strings.Join(lines, "\n")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// WriteMarkdown writes the rows as a table.
func WriteMarkdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	b.WriteString("| fault | backend | queues | sent | confirmed | delivered | kept as unroutable | twice | early | missing | longest outage | latest |\n")
	b.WriteString("|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		a := r.Account
		missing := fmt.Sprint(len(a.Missing))
		if a.Deleted > 0 {
			missing += fmt.Sprintf(" (+%d deleted)", a.Deleted)
		}
		early := fmt.Sprint(len(a.Early))
		if a.Spoilt > 0 {
			early += fmt.Sprintf(" (+%d announced)", a.Spoilt)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %s | %s | %s | %s |\n",
			r.Fault.Name, r.Subject, r.QueueType, a.Sent, a.Confirmed, a.Delivered, a.Kept, a.Twice, early, missing,
			seconds(a.Outage), seconds(a.LatestBy))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// UpdateDocument puts text between the markers of a file, under a section of its own by name, in place of what that
// section held.
func UpdateDocument(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("faults: %w", err)
	}
	updated, err := replaceSection(string(old), name, text)
	if err != nil {
		return fmt.Errorf("faults: %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(updated), 0o644)
}

// replaceSection keeps what other brokers' campaigns have written: each has a heading of its own.
func replaceSection(document, name, text string) (string, error) {
	before, rest, found := strings.Cut(document, beginTable)
	inside, after, closed := strings.Cut(rest, endTable)
	if !found || !closed {
		return "", fmt.Errorf("no %q followed by %q", beginTable, endTable)
	}
	const heading = "\n### "
	section := heading + name + "\n\n" + strings.TrimSpace(text) + "\n"
	var kept []string
	replaced := false
	for _, old := range strings.Split(inside, heading)[1:] {
		if strings.HasPrefix(old, name+"\n") {
			kept, replaced = append(kept, section), true
			continue
		}
		kept = append(kept, heading+strings.TrimRight(old, "\n")+"\n")
	}
	if !replaced {
		kept = append(kept, section)
	}
	return before + beginTable + "\n" + strings.Join(kept, "") + "\n" + endTable + after, nil
}
