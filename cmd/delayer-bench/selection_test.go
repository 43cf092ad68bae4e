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
	p = chosen(t, "--scenario", "accuracy", "--delays", "1s, 5s,90s")
	assert.Equal(t, []time.Duration{time.Second, 5 * time.Second, 90 * time.Second}, p.scenarios[0].Delays(bench.Subject{}))
}

func TestLaddersAreVaried(t *testing.T) {
	p := chosen(t, "--backend", "binaryladder/source", "--steps", "calendar", "--steps", "binary", "--tick", "1s,1ms", "--queue-type", "quorum")
	assert.Equal(t, []string{
		"binaryladder source calendar 1s", "binaryladder source binary 1s",
		"binaryladder source calendar 1ms", "binaryladder source binary 1ms",
	}, p.variants())
	assert.Contains(t, chosen(t, "--steps", "1s,2s,4s").variants(), "binaryladder source 1s+2 1s")
	assert.Contains(t, chosen(t, "--tick", "1ms").variants(), "binaryladder topic 1ms")
	assert.Contains(t, chosen(t).variants(), "binaryladder source")
}

func TestTheDefaultLadderIsTheOneThatUsersGet(t *testing.T) {
	source := shapes(nil, nil)[0]
	def := backend.Default().BinaryLadder
	assert.Equal(t, def, source.config(0))
	fine := source.config(time.Millisecond)
	assert.Equal(t, time.Millisecond, fine.Tick, "the scenario needs it")
	assert.Equal(t, time.Second, shape{tick: time.Second}.config(time.Millisecond).Tick, "what was asked for stays")
}

// Every link that some delay takes must be taken by a primer.
func TestPrimersTakeEveryLink(t *testing.T) {
	const longest = 3 * time.Second
	for _, s := range []shape{
		{steps: binaryladder.Binary, routing: binaryladder.Source, tick: time.Millisecond},
		{steps: binaryladder.Calendar, routing: binaryladder.Source, tick: time.Millisecond},
		{steps: binaryladder.Binary, routing: binaryladder.Topic, tick: time.Second},
	} {
		var all []time.Duration
		for d := s.tick; d <= longest; d += s.tick {
			all = append(all, d)
		}
		primers := s.prime(longest, 0)
		assert.Equal(t, linksOf(t, s, all), linksOf(t, s, primers), "%+v", s)
		assert.LessOrEqual(t, slices.Max(primers), longest)
		assert.LessOrEqual(t, len(primers), 1200)
	}
}

// linksOf are the neighbours in the plans of delays.
func linksOf(t *testing.T, s shape, delays []time.Duration) map[[2]time.Duration]bool {
	t.Helper()
	plans, err := binaryladder.Hops(s.config(0), delays...)
	require.NoError(t, err)
	links := map[[2]time.Duration]bool{}
	for _, plan := range plans {
		from := time.Duration(0)
		for _, to := range append(plan, 0) {
			links[[2]time.Duration{from, to}] = true
			from = to
		}
	}
	return links
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

// TestTheControllersWheel: without a name it is the backend's default, or what the queue type leaves.
func TestTheControllersWheel(t *testing.T) {
	controllers := func(flags ...string) (names []string) {
		for _, s := range chosen(t, flags...).subjects {
			if s.Backend == "controller" {
				names = append(names, s.Name()+", "+s.QueueType)
			}
		}
		return names
	}
	assert.Equal(t, []string{"controller slots, quorum", "controller rounds, classic"}, controllers())
	assert.Equal(t, []string{"controller rounds, quorum"}, controllers("--backend", "controller/rounds", "--queue-type", "quorum"))
}
