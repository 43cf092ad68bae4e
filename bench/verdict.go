package bench

import (
	"fmt"
	"math"
	"slices"
)

// A Verdict is what the figures say to somebody who has to choose. It is a function of the report alone.
type Verdict struct {
	// Choices are one for each type of queue that was measured.
	Choices []Choice
	// Remarks are about the whole: what does not do the job, what is missing.
	Remarks []string
}

// A Choice is the verdict on one type of queue.
type Choice struct {
	QueueType string
	Advice    string   // which to choose
	Others    []string // when another is better, and what a crash costs
	Grid      Grid     // subjects against questions, the best marked
}

// Sentences are all that the verdict says in words, the most important first.
func (v Verdict) Sentences() []string {
	var out []string
	for _, choice := range v.Choices {
		out = append(out, choice.Advice)
		out = append(out, choice.Others...)
	}
	return append(out, v.Remarks...)
}

// Equal figures: in one run on one machine a tenth more or less says nothing, nor does a millisecond, which is
// the broker's resolution.
const (
	tiePart = 0.10
	tieMS   = 1.0
)

// A question is a column of the verdict: the one figure that answers a scenario.
type question struct {
	scenario string
	head     string // of the column
	unit     string
	prize    string // in a sentence: "ahead in …"
	value    func(Run) float64
	text     func(float64) string
	highest  bool
	known    func(Run) bool // whether the run has the figure
}

// questions are the columns of the verdict, in order.
var questions = []question{
	{scenario: "accuracy", head: "late, p99", unit: "ms", prize: "p99 lateness under load", text: figure,
		value: func(r Run) float64 { return r.Lateness.P99 }, known: arrived},
	{scenario: "accuracy", head: "broker CPU", unit: "µs/msg", prize: "broker CPU a message", text: figure,
		value: func(r Run) float64 { return r.BrokerCPU }, known: func(r Run) bool { return r.BrokerCPU > 0 }},
	{scenario: "rate", head: "in time up to", unit: "msg/s", prize: "the highest rate in time", text: figure, highest: true,
		value: func(r Run) float64 { return r.MaxRate }, known: func(r Run) bool { return len(r.Probes) > 0 }},
	{scenario: "burst", head: "burst over in", unit: "ms", prize: "the end of a burst", text: figure,
		value: func(r Run) float64 { return r.DrainMS }, known: func(r Run) bool { return r.DrainMS > 0 }},
	{scenario: "backlog", head: "memory", unit: "B/msg", prize: "memory a waiting message", text: figure,
		value: func(r Run) float64 { return r.MemoryPerMessage }, known: func(r Run) bool { return r.MemoryPerMessage > 0 }},
	{scenario: "hops", head: "CPU, most hops", unit: "µs/msg", prize: "broker CPU with the most hops", text: figure,
		value: costliest, known: func(r Run) bool { return costliest(r) > 0 }},
	{scenario: "recovery", head: "serves after", unit: "ms", prize: "the time to serve after a restart", text: figure,
		value: func(r Run) float64 { return r.ServesMS }, known: func(r Run) bool { return r.ServesMS > 0 }},
}

func arrived(r Run) bool { return r.Delivered > 0 }

// costliest is the broker's work for a message with the most hops that were tried.
func costliest(r Run) float64 {
	if len(r.ByHops) == 0 {
		return 0
	}
	return slices.MaxFunc(r.ByHops, func(a, b HopCost) int { return a.Hops - b.Hops }).BrokerCPU
}

// HeldUp says that short delays waited for a long one: most of them, or where long ones came between them one in
// ten, for more than half of the time that the long one takes longer. Only "hol" and "hol-mix" ask for it.
func (r Run) HeldUp() bool {
	late := r.Lateness.P50
	if r.Scenario == "hol-mix" {
		late = r.Lateness.P90
	}
	return asksHOL(r.Scenario) && r.Delivered > 0 && late > (r.DelayMaxMS-r.DelayMinMS)/2
}

func asksHOL(scenario string) bool { return scenario == "hol" || scenario == "hol-mix" }

// Verdict judges the report.
func (r *Report) Verdict() Verdict {
	var v Verdict
	var contests []contest
	for _, runs := range groupBy(r.Runs, func(run Run) string { return run.QueueType }) {
		c := newContest(runs)
		contests = append(contests, c)
		v.Choices = append(v.Choices, c.decide())
	}
	v.Remarks = append(warnings(contests), r.caveats()...)
	return v
}

// caveats say what the verdict was drawn without.
func (r *Report) caveats() []string {
	var out []string
	if len(r.Runs) == 0 {
		out = append(out, "Nothing was measured.")
	}
	if n := len(r.Problems()); n > 0 {
		out = append(out, fmt.Sprintf("%s failed: see the notes below the tables.", plural(n, "run")))
	}
	if r.Partial {
		out = append(out, "The benchmark was interrupted: runs are missing.")
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%s %ss", thousands(int64(n)), what)
}

// ties says that a is as good as the best.
func (q question) ties(a, best float64) bool {
	apart := math.Abs(a - best)
	return apart <= tiePart*best || q.unit == "ms" && apart <= tieMS
}
