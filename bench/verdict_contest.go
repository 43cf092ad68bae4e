package bench

import (
	"fmt"
	"slices"
)

// A contest is all that was measured with one type of queue.
type contest struct {
	queueType string
	entries   []entrant
	asked     []question // those that somebody answered
	scenarios []string   // that were run
}

// An entrant is a subject in a contest.
type entrant struct {
	name      string
	backend   string
	baseline  bool
	undelayed bool
	runs      map[string][]Run // by scenario
	faults    []string         // why it does not do the job
}

func newContest(runs []Run) contest {
	c := contest{queueType: runs[0].QueueType}
	for _, group := range groupBy(runs, Run.Subject) {
		e := entrant{
			name: group[0].Subject(), backend: group[0].Backend, baseline: group[0].Baseline, undelayed: group[0].Undelayed, runs: map[string][]Run{},
		}
		for _, run := range group {
			e.runs[run.Scenario] = append(e.runs[run.Scenario], run)
		}
		e.faults = faultsOf(group)
		c.entries = append(c.entries, e)
	}
	for _, run := range runs {
		if !slices.Contains(c.scenarios, run.Scenario) {
			c.scenarios = append(c.scenarios, run.Scenario)
		}
	}
	for _, q := range questions {
		if slices.ContainsFunc(c.entries, func(e entrant) bool { _, known := e.answer(q); return known }) {
			c.asked = append(c.asked, q)
		}
	}
	return c
}

// faultsOf says what a strategy must not do and this one did; a crash has its own column, and a loss that was declared is no surprise.
func faultsOf(runs []Run) []string {
	var out []string
	var lost, early, twice int
	for _, run := range runs {
		if run.HeldUp() && len(out) == 0 {
			out = append(out, fmt.Sprintf("holds short delays up behind long ones (p99 %s late)", late(run.Lateness.P99)))
		}
		if run.Scenario == "crash" || run.LossDeclared {
			continue
		}
		lost, early = lost+run.Lost, early+run.Early
		if run.faulty() {
			twice += run.Duplicated
		}
	}
	for _, fault := range []struct {
		n    int
		what string
	}{{lost, "lost %s"}, {early, "was early with %s"}, {twice, "delivered %s twice"}} {
		if fault.n > 0 {
			out = append(out, fmt.Sprintf(fault.what, plural(fault.n, "message")))
		}
	}
	return out
}

// late writes milliseconds for a sentence.
func late(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return figure(ms) + " ms"
}

// answer is the median of the entrant's repetitions. Where a scenario was run with several settings, the first
// setting counts: every subject has it.
func (e entrant) answer(q question) (float64, bool) {
	var values []float64
	name := rowName(e.runs[q.scenario])
	for _, run := range e.runs[q.scenario] {
		if q.known(run) && name(run) == name(e.runs[q.scenario][0]) {
			values = append(values, q.value(run))
		}
	}
	return median(values), len(values) > 0
}

// competes says whether the entrant could be the best at anything.
func (e entrant) competes() bool { return !e.undelayed && len(e.faults) == 0 }

// best is the best answer of those that compete; false if there are fewer than two to compare.
func (c contest) best(q question) (float64, bool) {
	var values []float64
	for _, e := range c.entries {
		if v, known := e.answer(q); known && e.competes() && ranks(e.runs[q.scenario]) {
			values = append(values, v)
		}
	}
	return bestOf(values, q.highest), len(values) > 1
}

// wins are the questions at which the entrant is the best, or as good.
func (c contest) wins(e entrant) []question {
	var out []question
	for _, q := range c.asked {
		best, compared := c.best(q)
		v, known := e.answer(q)
		if compared && known && v > 0 && e.competes() && ranks(e.runs[q.scenario]) && q.ties(v, best) {
			out = append(out, q)
		}
	}
	return out
}

// grid is the table of subjects and questions. What must not happen comes first.
func (c contest) grid() Grid {
	g := Grid{Title: c.queueType + " queues", Head: []Column{{Name: "subject", Left: true}}}
	columns := []func(entrant) Cell{}
	if slices.ContainsFunc(c.scenarios, asksHOL) {
		g.Head = append(g.Head, Column{Name: "holds up", Unit: "p99, ms"})
		columns = append(columns, entrant.holCell)
	}
	if slices.Contains(c.scenarios, "crash") {
		g.Head = append(g.Head, Column{Name: "crash: lost", Unit: "msg"})
		columns = append(columns, entrant.crashCell)
	}
	for _, q := range c.asked {
		g.Head = append(g.Head, Column{Name: q.head, Unit: q.unit})
	}
	for _, e := range c.entries {
		row := []Cell{{Text: e.name}}
		for _, column := range columns {
			row = append(row, column(e))
		}
		g.Rows = append(g.Rows, append(row, c.answers(e)...))
	}
	return g
}

func (c contest) answers(e entrant) []Cell {
	wins := c.wins(e)
	out := make([]Cell, 0, len(c.asked))
	for _, q := range c.asked {
		cell := Cell{Text: "–"}
		if v, known := e.answer(q); known {
			cell.Text = q.text(v)
			if v == 0 && q.highest {
				cell.Text = "none"
			}
			cell.Best = slices.ContainsFunc(wins, func(w question) bool { return w.head == q.head })
		}
		out = append(out, cell)
	}
	return out
}

// holCell answers yes or no, with the worse of the two scenarios that ask.
func (e entrant) holCell() Cell {
	var worst Run
	for _, scenario := range []string{"hol", "hol-mix"} {
		for _, run := range e.runs[scenario] {
			if run.Delivered > 0 && (worst.Scenario == "" || run.HeldUp() && !worst.HeldUp() ||
				run.HeldUp() == worst.HeldUp() && run.Lateness.P99 > worst.Lateness.P99) {
				worst = run
			}
		}
	}
	switch {
	case worst.Scenario == "":
		return Cell{Text: "–"}
	case worst.HeldUp():
		return Cell{Text: "yes, " + figure(worst.Lateness.P99), Bad: true}
	}
	return Cell{Text: "no, " + figure(worst.Lateness.P99)}
}

func (e entrant) crashCell() Cell {
	lost, _, known := e.crashed()
	if !known {
		return Cell{Text: "–"}
	}
	return Cell{Text: thousands(int64(lost)), Bad: lost > 0}
}

// crashed is how many of how many messages were lost in all crashes.
func (e entrant) crashed() (lost, of int, known bool) {
	for _, run := range e.runs["crash"] {
		if run.Published > 0 {
			lost, of, known = lost+run.Lost, of+run.Published, true
		}
	}
	return lost, of, known
}
