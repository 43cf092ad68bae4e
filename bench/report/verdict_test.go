package report

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// did is a run in which all went well.
func did(scenario, subject string, shape func(*Run)) Run {
	backend, variant, _ := strings.Cut(subject, " ")
	r := Run{Scenario: scenario, Backend: backend, Variant: variant, QueueType: "quorum", Repetition: 1,
		DelayMinMS: 1000, DelayMaxMS: 10_000, Counts: Counts{Published: 100, Delivered: 100}}
	shape(&r)
	return r
}

func accurate(subject string, p99, cpu float64) Run {
	return did("accuracy", subject, func(r *Run) { r.Rate, r.Lateness.P99, r.BrokerCPU = 1000, p99, cpu })
}

// withCost adds what each run of accuracy would have cost.
func withCost(runs []Run) []Run {
	out := slices.Clone(runs)
	for _, r := range runs {
		if r.Scenario == "accuracy" {
			r.Scenario, r.Lateness = "cost", Lateness{}
			out = append(out, r)
		}
	}
	return out
}

// winners maps each rule that was measured to what is written of its winners, in the first type of
// queue.
func winners(t *testing.T, runs ...Run) map[string]string {
	t.Helper()
	v := verdictOf(&Report{Runs: withCost(runs)})
	require.NotEmpty(t, v.Contests)
	out := map[string]string{}
	for _, row := range v.Contests[0].Rules.Rows {
		out[row[1].Text] = row[3].Text
	}
	return out
}

func TestVerdict_BestWins(t *testing.T) {
	drained := func(subject string, ms float64) Run {
		return did("burst", subject, func(r *Run) { r.DrainMS = ms })
	}
	rate := func(subject string, highest float64) Run {
		return did("rate", subject, func(r *Run) { r.MaxRate, r.Probes = highest, make([]Probe, 1) })
	}
	assert.Equal(t, map[string]string{
		"accuracy: p99, ms": "a 10", "cost: CPU, µs/msg": "b 100", "burst: drained in, ms": "a 300",
		"rate: in time to, msg/s": "b 900",
	}, winners(t, accurate("a", 10, 300), accurate("b", 200, 100), accurate("c x", 90, 400),
		drained("a", 300), drained("b", 900), rate("a", 500), rate("b", 900), rate("c x", 0)))
}

func TestVerdict_WithinATenthOrAMillisecondIsEqual(t *testing.T) {
	assert.Equal(t, map[string]string{"accuracy: p99, ms": "a 1.0, b 2.0", "cost: CPU, µs/msg": "a 100, b 109"},
		winners(t, accurate("a", 1, 100), accurate("b", 2, 109), accurate("c", 2.1, 112)))
}

// What does not do the job wins nothing, in no scenario, and no table marks it.
func TestVerdict_UnfitWinsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		wrong Run
		says  string
	}{
		"late":         {accurate("bad", 14_000, 1), "bad: p99 14.0 s late (accuracy)"},
		"blocked":      {did("hol", "bad", func(r *Run) { r.Lateness.P99 = 8200 }), "bad: p99 8.2 s late (hol)"},
		"early":        {did("rate", "bad", func(r *Run) { r.Early = 1 }), "bad: 1 early (rate)"},
		"lost":         {did("burst", "bad", func(r *Run) { r.Lost = 1200 }), "bad: 1,200 lost (burst)"},
		"broken vow":   {did("crash", "bad", func(r *Run) { r.Lost, r.Outage = 3, true }), "bad: 3 lost (crash)"},
		"twice":        {did("hops", "bad", func(r *Run) { r.Duplicated = 2 }), "bad: 2 twice (hops)"},
		"not taken":    {did("recovery", "bad", func(r *Run) { r.Failed = 4 }), "bad: 4 failed to publish (recovery)"},
		"failed":       {did("burst", "bad", func(r *Run) { r.Error = "no permission" }), "bad: a run failed (burst)"},
		"not a delay":  {did("accuracy", "bad", func(r *Run) { r.Undelayed = true }), "bad: does not delay (accuracy)"},
		"also our own": {did("hol-mix", "bad", func(r *Run) { r.Lateness.P99 = 1001 }), "bad: p99 1.0 s late (hol-mix)"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := []Run{accurate("bad", 1, 1), c.wrong, accurate("ours", 30, 300), accurate("theirs", 10, 400)}
			r := &Report{Runs: runs}
			assert.Equal(t, []string{c.says}, verdictOf(r).Contests[0].Unfit)
			assert.Equal(t, map[string]string{"accuracy: p99, ms": "theirs 10", "cost: CPU, µs/msg": "ours 300"},
				only(winners(t, runs...), "accuracy", "cost"))
			for _, table := range tables(r) {
				for _, row := range table.grid.Rows {
					for _, cell := range row {
						assert.False(t, row[0].Text == "bad" && cell.Best, "%s: %s", table.grid.Title, cell.Text)
					}
				}
			}
		})
	}
}

func only(rules map[string]string, scenarios ...string) map[string]string {
	out := map[string]string{}
	for rule, won := range rules {
		if scenario, _, _ := strings.Cut(rule, ":"); slices.Contains(scenarios, scenario) {
			out[rule] = won
		}
	}
	return out
}

// A closed loop asks a slow subject for less: how late it was is neither published nor judged.
func TestVerdict_ClosedLoop(t *testing.T) {
	closed := func(subject string, p99 float64) Run {
		return did("accuracy", subject, func(r *Run) { r.Lateness.P99, r.BrokerCPU = p99, 1 })
	}
	r := &Report{Runs: []Run{closed("a", 10), closed("b", 14_000)}}
	v := verdictOf(r)
	assert.Empty(t, v.Contests)
	assert.Equal(t, "–", cellOf(t, tables(r)[0].grid, "a", "p99").Text)
}

func TestVerdict_OutagesAreForgivenWhereDeclared(t *testing.T) {
	crash := func(subject string, lost, twice int) Run {
		return did("crash", subject, func(r *Run) {
			r.Lost, r.Duplicated, r.Outage, r.LossDeclared = lost, twice, true, true
		})
	}
	runs := []Run{accurate("fast", 1, 10), accurate("safe", 50, 300), crash("fast", 654, 0), crash("safe", 0, 52)}
	assert.Equal(t, map[string]string{
		"accuracy: p99, ms": "fast 1.0", "cost: CPU, µs/msg": "fast 10", "crash: lost, msg": "nobody",
	}, winners(t, runs...), "who lost nothing once does not claim to; twice is what at least once allows")
	assert.Empty(t, verdictOf(&Report{Runs: runs}).Contests[0].Unfit)
	runs = append(runs, did("crash", "claims", func(r *Run) { r.Outage = true }))
	assert.Equal(t, "claims 0", winners(t, runs...)["crash: lost, msg"])
}

// Two subjects whose repetitions overlap are not told apart, whatever their medians.
func TestVerdict_OverlapIsEqual(t *testing.T) {
	var runs []Run
	for i := range 3 {
		for subject, cpu := range map[string][]float64{"a": {100, 100, 160}, "b": {150, 150, 155}, "c": {170, 170, 170}} {
			r := accurate(subject, 10, cpu[i])
			r.Repetition = i + 1
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return strings.Compare(a.Backend, b.Backend) })
	assert.Equal(t, "a 100, b 150", winners(t, runs...)["cost: CPU, µs/msg"])
}

func TestVerdict_NobodyWinsAlone(t *testing.T) {
	assert.Equal(t, "nobody", winners(t, accurate("ours", 1, 1))["accuracy: p99, ms"], "nothing to compare it with")
	assert.Equal(t, "ours 1.0", winners(t, accurate("ours", 1, 1), accurate("bad", 5000, 1))["accuracy: p99, ms"])
	assert.Equal(t, "nobody", winners(t, accurate("bad", 4000, 1), accurate("worse", 5000, 1))["accuracy: p99, ms"])
}

func TestVerdict_SettingsAreNotCompared(t *testing.T) {
	backlog := func(subject string, n int, memory float64) Run {
		return did("backlog", subject, func(r *Run) { r.Messages, r.BodyBytes, r.MemoryPerMessage = n, 64, memory })
	}
	assert.Equal(t, map[string]string{"backlog: memory, B/msg": "a, 100 × 64 B 900"},
		winners(t, backlog("a", 100, 900), backlog("b", 100, 1100), backlog("a", 500, 90), backlog("b", 500, 80)))
}

func TestVerdict_SaysWhatIsMissing(t *testing.T) {
	assert.Equal(t, []string{"Nothing was measured."}, verdictOf(&Report{}).Remarks)
	failed := did("accuracy", "ours", func(r *Run) { r.Lost = 2 })
	v := verdictOf(&Report{Partial: true, Runs: []Run{failed, accurate("theirs", 1, 1)}, Leftovers: []string{"no broker"}})
	assert.Equal(t, []string{"1 run failed: see the notes below the tables.",
		"The benchmark was interrupted: runs are missing.", "left in the broker: no broker"}, v.Remarks)
}

func TestVerdict_QueueTypesAreSeparate(t *testing.T) {
	classic := accurate("theirs", 1, 1)
	classic.QueueType = "classic"
	v := verdictOf(&Report{Runs: []Run{accurate("ours", 10, 300), accurate("theirs", 20, 400), classic}})
	require.Len(t, v.Contests, 2)
	assert.Equal(t, "classic queues", v.Contests[1].Rules.Title)
	assert.Equal(t, "nobody", v.Contests[1].Rules.Rows[0][3].Text)
}

// Every rule names a measure that its scenario has.
func TestRulesNameMeasures(t *testing.T) {
	for _, rule := range rules {
		assert.True(t, find(rule.measure).in(rule.scenario), rule.question)
	}
}

// docs/report.md says what the code does.
func TestDocumentationNamesEveryRule(t *testing.T) {
	text, err := os.ReadFile("../../docs/report.md")
	require.NoError(t, err)
	for _, r := range rules {
		assert.Contains(t, string(text), "| "+r.question+" | "+r.scenario+" | "+r.measure+" |")
	}
	for _, condition := range verdictOf(&Report{}).Job {
		assert.Contains(t, strings.ReplaceAll(string(text), "\n  ", " "), "\n- "+condition+"\n")
	}
}
