package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Series is what campaigns have found on one kind of broker: a JSON file of docs/results.
type Series struct {
	Broker  string   // "RabbitMQ 3.10.8, private node"
	Runs    []string // the command lines, with their days and seeds
	Results []Row
}

// A Row is the result of one Fault with one Subject.
type Row struct {
	Fault, Backend, Queues string
	Totals
	Problems []string `json:",omitempty"` // violations of the contract
	Slow     []string `json:",omitempty"` // times that a Delayer explains, or a machine that does other work
}

func (r *Row) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// String is for who watches a campaign: a line, with what must not be below it.
func (r Row) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %-20s %-8s %6d of %6d came, the last %5.1f s late, no confirm for %5.1f s: %s",
		r.Fault, r.Backend, r.Queues, r.Delivered, r.Confirmed, r.LatestBy.Seconds(), r.Outage.Seconds(), r.cell())
	for _, problem := range r.Problems {
		b.WriteString("\n    PROBLEM: " + problem)
	}
	for _, slow := range r.Slow {
		b.WriteString("\n    SLOW: " + slow)
	}
	return b.String()
}

// cell is what a reader wants to know of a row. A message is called late if it came five seconds or
// more after it was due, and after the fault was over.
func (r Row) cell() string {
	var parts []string
	for _, p := range []struct {
		what string
		n    int
	}{
		{"early", r.Early}, {"lost", r.Missing}, {"unroutable", r.Kept}, {"twice", r.Twice},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.what, p.n))
		}
	}
	const late = 5 * time.Second
	if r.AfterEnd >= late {
		parts = append(parts, fmt.Sprintf("late %.0f s", r.AfterEnd.Seconds()))
	}
	return cmp.Or(strings.Join(parts, ", "), "ok")
}

// Table is a series in Markdown: a row for each fault, and a column for each backend.
func (s Series) Table() string {
	var faults, backends []string
	cells := map[[2]string]string{}
	for _, r := range s.Results {
		backend := "`" + r.Backend + "`"
		if r.Queues == "classic" {
			backend += ", classic"
		}
		if !slices.Contains(faults, r.Fault) {
			faults = append(faults, r.Fault)
		}
		if !slices.Contains(backends, backend) {
			backends = append(backends, backend)
		}
		cells[[2]string{r.Fault, backend}] = r.cell()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| fault | %s |\n|---|%s\n", strings.Join(backends, " | "), strings.Repeat("---|", len(backends)))
	for _, fault := range faults {
		fmt.Fprintf(&b, "| %s |", fault)
		for _, backend := range backends {
			fmt.Fprintf(&b, " %s |", cmp.Or(cells[[2]string{fault, backend}], "–"))
		}
		b.WriteString("\n")
	}
	return b.String()
}
