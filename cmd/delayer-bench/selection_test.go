package main

import (
	"slices"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/bench"
)

// chosen is what delayer-bench with these flags would do.
func chosen(t *testing.T, flags ...string) selection {
	t.Helper()
	var c benchCmd
	parser, err := kong.New(&c, kong.Vars{"subjects": "", "scenarios": ""})
	require.NoError(t, err)
	_, err = parser.Parse(flags)
	require.NoError(t, err)
	p, err := c.selection()
	require.NoError(t, err)
	return p
}

func (s selection) variants() []string {
	var out []string
	for _, subject := range s.subjects {
		out = append(out, subject.Name())
	}
	return out
}

func TestRunsEndInTheTimeThatIsPromised(t *testing.T) {
	for _, c := range []struct {
		flags []string
		most  time.Duration
	}{
		{[]string{"--quick"}, 150 * time.Second},
		{[]string{"--full"}, 26 * time.Minute},
	} {
		took := chosen(t, c.flags...).estimate(1)
		t.Logf("%v: %v", c.flags, took)
		assert.Less(t, took, c.most, c.flags)
	}
}

func TestScenariosAreChosen(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  []string
	}{
		{[]string{"--quick"}, []string{"accuracy", "hol"}},
		{nil, []string{"accuracy", "hol", "rate"}},
		{[]string{"--scenario", "crash,hops"}, []string{"hops", "crash"}},
		{[]string{"--full"}, []string{"accuracy", "hol", "hol-mix", "burst", "rate", "backlog", "hops", "crash", "recovery"}},
	} {
		assert.Equal(t, c.want, scenarioNames(chosen(t, c.flags...).scenarios), c.flags)
	}
}

func TestFlagsReachTheScenario(t *testing.T) {
	p := chosen(t, "--scenario", "accuracy,backlog", "--messages", "70000", "--body", "4", "--rate", "5", "--delays", "100ms-15s")
	accuracy, backlog := p.scenarios[0].(bench.Accuracy), p.scenarios[1].(bench.Backlog)
	assert.Equal(t, time.Millisecond, accuracy.Step, "100ms is no whole second")
	assert.Equal(t, 100*time.Millisecond, accuracy.DelayMin)
	for _, load := range []bench.Load{accuracy.Load, backlog.Load} {
		assert.Equal(t, 70_000, load.Messages)
		assert.Equal(t, 4, load.Body)
		assert.InDelta(t, 5, load.Rate, 0)
		assert.Equal(t, 256, load.Concurrency)
		assert.Equal(t, patience, load.Patience)
	}
	p = chosen(t, "--scenario", "accuracy", "--delays", "1s-2s", "--step", "250ms")
	assert.Len(t, p.scenarios[0].Delays(bench.Subject{}), 5)
}

func TestLaddersAreVaried(t *testing.T) {
	p := chosen(t, "--backend", "binaryladder/source", "--bits", "1,6", "--tick", "1s,1ms", "--queue-type", "quorum")
	assert.Equal(t, []string{
		"binaryladder source 1 bits 1s", "binaryladder source 6 bits 1s",
		"binaryladder source 1 bits 1ms", "binaryladder source 6 bits 1ms",
	}, p.variants())
	assert.Contains(t, chosen(t, "--bits", "4").variants(), "binaryladder source 4 bits 1s")
	assert.Contains(t, chosen(t, "--tick", "1ms").variants(), "binaryladder topic 1ms")
	assert.Contains(t, chosen(t).variants(), "binaryladder source")
}

func TestTheDefaultLadderIsTheOneThatUsersGet(t *testing.T) {
	source := shapes(nil, nil)[0]
	def := backend.Default().BinaryLadder
	assert.Equal(t, def, source.config(0))
	fine := source.config(time.Millisecond)
	assert.Equal(t, time.Millisecond, fine.Tick, "the scenario needs it")
	assert.Equal(t, time.Second, shape{bits: 1, tick: time.Second}.config(time.Millisecond).Tick, "what was asked for stays")
}

func TestLevelsReachTwelveDays(t *testing.T) {
	for _, c := range []struct {
		bits   int
		tick   time.Duration
		levels int
	}{
		{1, time.Second, 20}, {4, time.Second, 5}, {6, time.Second, 4},
		{1, time.Millisecond, 28}, // as many as there may be: three days
		{2, time.Millisecond, 15}, {3, time.Millisecond, 10}, {4, time.Millisecond, 8}, {6, time.Millisecond, 5},
	} {
		assert.Equal(t, c.levels, levelsFor(c.bits, c.tick), "%d bits, %v", c.bits, c.tick)
	}
}

// Every step that some delay takes must be taken by a primer.
func TestPrimersTakeEveryStep(t *testing.T) {
	const longest = 3 * time.Second
	for _, s := range []shape{{bits: 1, tick: time.Millisecond}, {bits: 6, tick: time.Millisecond}, {bits: 1, tick: time.Second}} {
		cfg := s.config(0)
		primed := map[[3]int]bool{}
		primers := s.prime(longest, 0)
		for _, d := range primers {
			assert.LessOrEqual(t, d, longest)
			for _, step := range stepsOf(d, cfg) {
				primed[step] = true
			}
		}
		for d := cfg.Tick; d <= longest; d += cfg.Tick {
			for _, step := range stepsOf(d, cfg) {
				require.True(t, primed[step], "%+v: %v takes step %v", s, d, step)
			}
		}
		assert.Less(t, len(primers), 600)
	}
}

// stepsOf are a delay's steps: from a level, or -1, to a level and value, or -1.
func stepsOf(d time.Duration, cfg binaryladder.Config) [][3]int {
	const outside = -1
	var out [][3]int
	from := outside
	for level := cfg.Levels - 1; level >= 0; level-- {
		value := int(int64(d/cfg.Tick)>>(cfg.BitsPerLevel*level)) & (1<<cfg.BitsPerLevel - 1)
		if value != 0 {
			out = append(out, [3]int{from, level, value})
			from = level
		}
	}
	return append(out, [3]int{from, outside, 0})
}

func TestAFullRunLeavesOutOnlyWhatNobodyNamed(t *testing.T) {
	p := chosen(t, "--full")
	taken := func(p selection, scenario, subject, queueType string) bool {
		s := p.scenarios[slices.Index(scenarioNames(p.scenarios), scenario)]
		i := slices.IndexFunc(p.subjects, func(s bench.Subject) bool { return s.Name() == subject && s.QueueType == queueType })
		return s.Takes(p.subjects[i]) && (p.leaves == nil || !p.leaves(s, p.subjects[i]))
	}
	assert.True(t, taken(p, "accuracy", "top-entry", "quorum"))
	assert.False(t, taken(p, "backlog", "top-entry", "quorum"))
	assert.True(t, taken(p, "crash", "binaryladder source", "classic"))
	assert.False(t, taken(p, "hol", "fixedtiers", "classic"))
	assert.False(t, taken(p, "rate", "per-message-ttl", "quorum"), "it blocks: its rate says nothing")
	named := chosen(t, "--full", "--backend", "top-entry")
	assert.True(t, taken(named, "backlog", "top-entry", "quorum"))
}
