package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A rule of the verdict names the measure that answers a question. The best value wins, and values
// as good as it.
type rule struct{ question, scenario, measure string }

// rules are the verdict, with the conditions in job.
var rules = []rule{
	{"how late under load?", "accuracy", "p99"},
	{"what does a message cost the broker?", "cost", "CPU"},
	{"up to what rate in time?", "rate", "in time to"},
	{"how soon is a burst over?", "burst", "drained in"},
	{"what does a waiting message take?", "backlog", "memory"},
	{"what does a delay of many set bits cost?", "hops", "CPU, most set bits"},
	{"what does a killed broker lose?", "crash", "lost"},
	{"how soon does it serve after a restart?", "recovery", "serves after"},
}

// Values within a tenth or a millisecond of the best are as good: one run on one machine is not
// more exact.
const (
	tiePart = 0.10
	tieMS   = 1.0
)

// how says how the rules are applied.
const how = "Only a subject that does the job can win. Whose figure is within a tenth or a millisecond of the best, " +
	"or whose repetitions overlap with the best's, is not told apart from it, and wins too. Of a killed broker " +
	"nobody wins who does not claim to survive it: one kill is luck. The job:"

// wins says which rows win at the measure. At least two must have been measured, with the settings
// of the first. None wins where one that does the job was measured and has no figure: it may be the
// best.
func (m measure) wins(rows []row, fit func(row) bool) []bool {
	best, at, measured := math.Inf(1), -1, 0
	if m.higher {
		best = math.Inf(-1)
	}
	values := make([]float64, len(rows)) // NaN: does not compete
	for i, row := range rows {
		v, known := m.of(row.runs)
		values[i] = math.NaN()
		if row.setting != rows[0].setting {
			continue
		}
		if m.vague != nil && fit(row) && slices.ContainsFunc(row.runs, m.vague) {
			return make([]bool, len(rows))
		}
		if !known {
			continue
		}
		measured++
		declared := m.fault && slices.ContainsFunc(row.runs, func(r Run) bool { return r.LossDeclared })
		if fit(row) && !declared && v > 0 != m.fault { // a rate of nothing and a fault cannot win
			values[i] = v
			if m.higher == (v > best) && v != best {
				best, at = v, i
			}
		}
	}
	won := make([]bool, len(rows))
	for i, v := range values {
		apart := math.Abs(v - best)
		won[i] = measured >= 2 && (apart <= tiePart*best || m.unit == "ms" && apart <= tieMS ||
			at >= 0 && !math.IsNaN(v) && m.overlap(rows[i].runs, rows[at].runs))
	}
	return won
}

// overlap reports whether the repetitions of two subjects overlap: then their medians tell nothing
// apart. One repetition is no spread.
func (m measure) overlap(a, b []Run) bool {
	if len(m.values(a)) < 2 || len(m.values(b)) < 2 {
		return false
	}
	_, lowestA, highestA := m.spread(a)
	_, lowestB, highestB := m.spread(b)
	return lowestA <= highestB && lowestB <= highestA
}

// ruled says whether a rule asks for the measure in the scenario: only such a column has winners.
func (m measure) ruled(scenario string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.scenario == scenario && r.measure == m.name })
}

// A verdict is what the rules make of a report. The page's template reads it.
type verdict struct {
	Contests []contest // one for each type of queue
	Remarks  []string  // what is missing
	How      string
	Job      []string
}

// A contest is the verdict on one type of queue.
type contest struct {
	Rules grid     // the rules that were measured, with their winners
	Unfit []string // the subjects that do not do the job, and why
}

// verdictOf applies the rules to a report.
func verdictOf(r *Report) verdict {
	v := verdict{How: how}
	for _, c := range job {
		v.Job = append(v.Job, c.says)
	}
	without, tables := unfit(r), tables(r)
	for _, runs := range groupBy(r.Runs, func(run Run) string { return run.QueueType }) {
		c := contest{Rules: rulesGrid(runs[0].QueueType, tables)}
		for _, own := range groupBy(runs, Run.Subject) {
			if why := without[contestantOf(own[0])]; why != "" {
				c.Unfit = append(c.Unfit, own[0].Name()+": "+why)
			}
		}
		if len(c.Rules.Rows)+len(c.Unfit) > 0 {
			v.Contests = append(v.Contests, c)
		}
	}
	v.Remarks = remarks(r)
	return v
}

func rulesGrid(queueType string, tables []table) grid {
	g := grid{Title: queueType + " queues", Head: []column{
		{Name: "question", Left: true}, {Name: "measure", Left: true}, {Name: "wins", Left: true}, {Name: "won by", Left: true},
	}}
	for _, rule := range rules {
		m := find(rule.measure)
		wins := "lowest"
		if m.higher {
			wins = "highest"
		}
		for _, t := range tables {
			known := slices.ContainsFunc(t.rows, func(row row) bool { return len(m.values(row.runs)) > 0 })
			if known && t.queueType == queueType && t.scenario.Name == rule.scenario {
				g.Rows = append(g.Rows, texts(rule.question, rule.scenario+": "+m.name+", "+m.unit, wins, t.winners(m)))
			}
		}
	}
	return g
}

// winners names them with their values.
func (t table) winners(m measure) string {
	var out []string
	for i, won := range m.wins(t.rows, t.fit) {
		if won {
			out = append(out, fmt.Sprintf("%s %s", t.rows[i].name, m.text(m.of(t.rows[i].runs))))
		}
	}
	if len(out) == 0 {
		return "nobody"
	}
	return strings.Join(out, ", ")
}

// remarks say what is missing.
func remarks(r *Report) []string {
	var out []string
	if len(r.Runs) == 0 {
		out = append(out, "Nothing was measured.")
	}
	switch n := len(r.failed()); n {
	case 0:
	case 1:
		out = append(out, "1 run failed: see the notes below the tables.")
	default:
		out = append(out, fmt.Sprintf("%d runs failed: see the notes below the tables.", n))
	}
	if r.Partial {
		out = append(out, "The benchmark was interrupted: runs are missing.")
	}
	return append(out, r.left()...)
}
