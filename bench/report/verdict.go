package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/bench"
)

// A rule of the verdict names the measure that answers a question. The lowest value wins, or the
// highest where higher is better. Values as good as the best win too.
type rule struct{ question, scenario, measure string }

// rules are the verdict, with the conditions in job.
var rules = []rule{
	{"how late under load?", "accuracy", "p99"},
	{"what does a message cost the broker?", "accuracy", "CPU"},
	{"up to what rate in time?", "rate", "in time to"},
	{"how soon is a burst over?", "burst", "drained in"},
	{"what does a waiting message take?", "backlog", "memory"},
	{"what do the most hops cost?", "hops", "CPU, most hops"},
	{"what does a killed broker lose?", "crash", "lost"},
	{"how soon does it serve after a restart?", "recovery", "serves after"},
}

// Values within a tenth or a millisecond of the best are as good: one run on one machine says no
// more.
const (
	tiePart = 0.10
	tieMS   = 1.0
)

// How says how the rules are applied.
const How = "Only a subject that does the job can win. What is within a tenth or a millisecond of the best wins too. The job:"

func (m measure) ties(v, best float64) bool {
	apart := math.Abs(v - best)
	return apart <= tiePart*best || m.unit == "ms" && apart <= tieMS
}

// wins says which rows win at the measure. At least two must have been measured, with the same
// settings.
func (m measure) wins(rows []Row, fit func(Row) bool) []bool {
	out := make([]bool, len(rows))
	measured := 0
	var values []float64
	competes := func(row Row) (float64, bool) {
		v, known := m.of(row.Runs)
		return v, known && row.setting == rows[0].setting && fit(row) && m.couldWin(v)
	}
	for _, row := range rows {
		if _, known := m.of(row.Runs); known && row.setting == rows[0].setting {
			measured++
		}
		if v, ok := competes(row); ok {
			values = append(values, v)
		}
	}
	if measured < 2 {
		return out
	}
	for i, row := range rows {
		v, ok := competes(row)
		out[i] = ok && m.ties(v, m.best(values))
	}
	return out
}

// couldWin refuses a rate of nothing, and any fault.
func (m measure) couldWin(v float64) bool { return v > 0 && !m.fault || v == 0 && m.fault }

func (m measure) best(values []float64) float64 {
	if m.higher {
		return slices.Max(values)
	}
	return slices.Min(values)
}

// ruled says whether a rule asks for the measure in the scenario: only such a column has winners.
func (m measure) ruled(scenario string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.scenario == scenario && r.measure == m.name })
}

// A Verdict is what the rules make of a report.
type Verdict struct {
	Contests []Contest // one for each type of queue
	Remarks  []string  // what is missing
}

// A Contest is the verdict on one type of queue.
type Contest struct {
	QueueType string
	Rules     Grid     // the rules that were measured, with their winners
	Unfit     []string // the subjects that do not do the job, and why
}

// VerdictOf applies the rules to a report.
func VerdictOf(r *bench.Report) Verdict {
	var v Verdict
	without := unfit(r)
	tables := Tables(r)
	for _, runs := range groupBy(r.Runs, func(run bench.Run) string { return run.QueueType }) {
		c := Contest{QueueType: runs[0].QueueType}
		c.Rules = rulesGrid(c.QueueType, tables)
		for _, own := range groupBy(runs, bench.Run.Subject) {
			if why := without[subjectOf(own[0])]; why != "" {
				c.Unfit = append(c.Unfit, own[0].Subject()+": "+why)
			}
		}
		if len(c.Rules.Rows)+len(c.Unfit) > 0 {
			v.Contests = append(v.Contests, c)
		}
	}
	v.Remarks = remarks(r)
	return v
}

func rulesGrid(queueType string, tables []Table) Grid {
	g := Grid{Title: queueType + " queues", Head: []Column{
		{Name: "question", Left: true}, {Name: "measure", Left: true}, {Name: "wins", Left: true}, {Name: "won by", Left: true},
	}}
	for _, rule := range rules {
		for _, t := range tables {
			m := find(rule.measure)
			if t.QueueType != queueType || t.Scenario.Name != rule.scenario || !m.knownIn(t.Rows) {
				continue
			}
			wins := "lowest"
			if m.higher {
				wins = "highest"
			}
			g.Rows = append(g.Rows, Texts(rule.question, rule.scenario+": "+m.name+", "+m.unit, wins, t.winners(m)))
		}
	}
	return g
}

func (m measure) knownIn(rows []Row) bool {
	return slices.ContainsFunc(rows, func(row Row) bool { _, known := m.of(row.Runs); return known })
}

// winners names them with their values.
func (t Table) winners(m measure) string {
	var out []string
	for i, won := range m.wins(t.Rows, t.fit) {
		if won {
			out = append(out, fmt.Sprintf("%s %s", t.Rows[i].Name, m.text(m.of(t.Rows[i].Runs))))
		}
	}
	if len(out) == 0 {
		return "nobody"
	}
	return strings.Join(out, ", ")
}

// remarks say what is missing.
func remarks(r *bench.Report) []string {
	var out []string
	if len(r.Runs) == 0 {
		out = append(out, "Nothing was measured.")
	}
	switch n := len(r.Problems()); n {
	case 0:
	case 1:
		out = append(out, "1 run failed: see the notes below the tables.")
	default:
		out = append(out, fmt.Sprintf("%d runs failed: see the notes below the tables.", n))
	}
	if r.Partial {
		out = append(out, "The benchmark was interrupted: runs are missing.")
	}
	return out
}
