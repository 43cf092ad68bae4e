package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Heading is what the live table begins with.
func Heading() string {
	return fmt.Sprintf("%-22s %-22s %-8s %7s %9s %9s %5s %6s %5s %7s %8s %8s %9s",
		"fault", "backend", "queues", "sent", "confirmed", "delivered", "kept", "twice", "early", "missing", "outage", "latest", "after end")
}

// String is the row of the live table, with what must not be and what was noted below it.
func (r Row) String() string {
	a := r.Totals
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %-22s %-8s %7d %9d %9d %5d %6d %5d %7d %8s %8s %9s",
		r.Fault.Name, r.Subject, r.QueueType, a.Sent, a.Confirmed, a.Delivered, a.Kept, a.Twice, len(a.Early), len(a.Missing),
		seconds(a.Outage), seconds(a.LatestBy), seconds(a.AfterEnd))
	if a.Cancelled > 0 {
		fmt.Fprintf(&b, "  (%d cancelled, %d postponed)", a.Cancelled, a.Postponed)
	}
	if a.Deleted > 0 {
		fmt.Fprintf(&b, "  (%d deleted by the operator)", a.Deleted)
	}
	for _, problem := range r.Problems {
		b.WriteString("\n    PROBLEM: " + problem)
	}
	for _, slow := range r.Slow {
		b.WriteString("\n    SLOW: " + slow)
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
	for text, n := range r.Totals.Errors {
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
