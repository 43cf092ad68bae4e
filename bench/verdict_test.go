package bench

import (
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
	return did("accuracy", subject, func(r *Run) { r.Lateness.P99, r.BrokerCPU = p99, cpu })
}

func verdictOf(runs ...Run) Verdict { return (&Report{Runs: runs}).Verdict() }

// cell finds a figure of the verdict's first table.
func (v Verdict) cell(t *testing.T, subject, head string) Cell {
	t.Helper()
	grid := v.Choices[0].Grid
	for _, row := range grid.Rows {
		for i, column := range grid.Head {
			if row[0].Text == subject && column.Name == head {
				return row[i]
			}
		}
	}
	require.Fail(t, "no cell", "%s, %s", subject, head)
	return Cell{}
}

func TestVerdictChoosesWhatIsBestAtMost(t *testing.T) {
	v := verdictOf(accurate("slow", 200, 100), accurate("ours", 10, 300), accurate("ours topic", 90, 400),
		did("burst", "ours", func(r *Run) { r.DrainMS = 300 }), did("burst", "slow", func(r *Run) { r.DrainMS = 900 }))
	require.Len(t, v.Choices, 1)
	assert.Equal(t, "On quorum queues choose ours: nothing is better in p99 lateness under load (10 ms) and the end of a burst (300 ms).",
		v.Choices[0].Advice)
	assert.Equal(t, []string{"slow is ahead of it in broker CPU a message (100 against 300 µs/msg)."}, v.Choices[0].Others)
	assert.Empty(t, v.Remarks)
	assert.Equal(t, Cell{Text: "10", Best: true}, v.cell(t, "ours", "late, p99"))
	assert.Equal(t, Cell{Text: "200"}, v.cell(t, "slow", "late, p99"))
	assert.Equal(t, Cell{Text: "–"}, v.cell(t, "ours topic", "burst over in"))
}

func TestVerdictCountsWithinATenthOrAMillisecondAsEqual(t *testing.T) {
	v := verdictOf(accurate("a", 1, 100), accurate("b", 2, 109), accurate("c", 2.1, 112))
	for subject, want := range map[string][2]bool{"a": {true, true}, "b": {true, true}, "c": {false, false}} {
		assert.Equal(t, want[0], v.cell(t, subject, "late, p99").Best, subject)
		assert.Equal(t, want[1], v.cell(t, subject, "broker CPU").Best, subject)
	}
}

func TestVerdictDoesNotPraiseWhatDoesNotDoTheJob(t *testing.T) {
	blocked := did("hol", "blocks", func(r *Run) { r.Lateness = Lateness{P50: 8000, P90: 8100, P99: 8200}; r.Baseline = true })
	early := accurate("early", 1, 1)
	early.Early, early.Baseline = 3, true
	v := verdictOf(accurate("ours", 10, 300), accurate("theirs", 12, 350), accurate("blocks", 1, 1), blocked, early,
		did("hol", "ours", func(r *Run) { r.Lateness.P99 = 30 }))
	assert.Contains(t, v.Choices[0].Advice, "choose ours")
	assert.Empty(t, v.Choices[0].Others)
	assert.Equal(t, []string{
		"blocks, with quorum queues, holds short delays up behind long ones (p99 8.2 s late): it does not compete.",
		"early, with quorum queues, was early with 3 messages: it does not compete.",
	}, v.Remarks)
	assert.Equal(t, Cell{Text: "yes, 8,200", Bad: true}, v.cell(t, "blocks", "holds up"))
	assert.Equal(t, Cell{Text: "no, 30"}, v.cell(t, "ours", "holds up"))
	assert.False(t, v.cell(t, "blocks", "broker CPU").Best)
}

func TestSaturationIsNotHeadOfLineBlocking(t *testing.T) {
	run := did("hol", "s", func(r *Run) { r.Lateness = Lateness{P50: 1000, P90: 6000, P99: 7000} })
	assert.False(t, run.HeldUp(), "half of them were hardly late")
	run.Scenario = "hol-mix"
	assert.True(t, run.HeldUp(), "where only some are behind a long one")
	run.Scenario = "accuracy"
	assert.False(t, run.HeldUp())
}

func TestVerdictPrefersWhatSurvivesACrash(t *testing.T) {
	crash := func(subject string, lost, twice int) Run {
		return did("crash", subject, func(r *Run) { r.Lost, r.Duplicated, r.Published, r.Outage = lost, twice, 5000, true })
	}
	v := verdictOf(accurate("fast", 1, 10), accurate("safe", 50, 300), crash("fast", 654, 0), crash("safe", 0, 52))
	assert.Contains(t, v.Choices[0].Advice, "choose safe: it does the job")
	assert.Contains(t, v.Choices[0].Advice, "lost nothing in the crash", "twice is what at least once allows")
	assert.Contains(t, v.Choices[0].Others, "In the crash fast lost up to 654 of 5,000 messages on quorum queues.")
	assert.Equal(t, Cell{Text: "654", Bad: true}, v.cell(t, "fast", "crash: lost"))
}

func TestVerdictKnowsConditionsAndBaselines(t *testing.T) {
	baseline := accurate("bit-entry", 5, 50)
	baseline.Baseline = true
	v := verdictOf(accurate("binaryladder source", 40, 200), accurate("fixedtiers", 10, 100), baseline)
	assert.Contains(t, v.Choices[0].Advice, "choose binaryladder source: it does the job")
	assert.Equal(t, []string{"bit-entry, a baseline, is ahead of it in p99 lateness under load (5.0 against 40 ms) and broker CPU a message (50 against 200 µs/msg)."},
		v.Choices[0].Others)
	v = verdictOf(accurate("fixedtiers", 10, 100), accurate("plugin", 30, 300))
	assert.Contains(t, v.Choices[0].Advice, "choose fixedtiers (if a few fixed delays are enough): nothing is better")
}

func TestVerdictSaysWhatItWasDrawnWithout(t *testing.T) {
	assert.Equal(t, []string{"Nothing was measured."}, verdictOf().Sentences())
	assert.Equal(t, []string{"On quorum queues only ours was measured: there is nothing to compare it with."},
		verdictOf(accurate("ours", 1, 1)).Sentences())
	failed := did("accuracy", "ours", func(r *Run) { r.Lost = 2 })
	v := (&Report{Partial: true, Runs: []Run{failed, accurate("theirs", 1, 1)}}).Verdict()
	assert.Contains(t, v.Choices[0].Advice, "choose theirs")
	assert.Contains(t, v.Remarks, "1 run failed: see the notes below the tables.")
	assert.Contains(t, v.Remarks, "The benchmark was interrupted: runs are missing.")
}

func TestVerdictSeparatesQueueTypes(t *testing.T) {
	classic := accurate("theirs", 1, 1)
	classic.QueueType = "classic"
	v := verdictOf(accurate("ours", 10, 300), accurate("theirs", 20, 400), classic)
	require.Len(t, v.Choices, 2)
	assert.Equal(t, "classic", v.Choices[1].QueueType)
	assert.Len(t, v.Choices[1].Grid.Rows, 1)
}
