package main

import (
	"slices"
	"strings"
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
func chosen(t *testing.T, flags ...string) bench.Benchmark {
	t.Helper()
	var c benchCmd
	parser, err := kong.New(&c, kong.Vars{"subjects": "", "scenarios": ""})
	require.NoError(t, err)
	_, err = parser.Parse(flags)
	require.NoError(t, err)
	b, err := c.benchmark()
	require.NoError(t, err)
	return b
}

func variantsOf(b bench.Benchmark) []string {
	var out []string
	for _, subject := range b.Subjects {
		out = append(out, subject.Name())
	}
	return out
}

func TestRunsEndInTheTimeThatIsPromised(t *testing.T) {
	for _, c := range []struct {
		flags []string
		most  time.Duration
	}{
		{[]string{"--quick"}, 170 * time.Second},
		{[]string{"--full"}, 40 * time.Minute},
	} {
		took, err := chosen(t, c.flags...).Estimate()
		require.NoError(t, err)
		t.Logf("%v: %v", c.flags, took)
		assert.Less(t, took, c.most, c.flags)
	}
}

func TestFlagsReachTheBenchmark(t *testing.T) {
	b := chosen(t, "--scenario", "accuracy,backlog", "--messages", "70000", "--body", "4", "--rate", "5", "--delays", "100ms-15s")
	assert.Equal(t, []string{"accuracy", "backlog"}, b.Scenarios)
	assert.Equal(t, 70_000, b.Messages)
	assert.Equal(t, 4, b.Body)
	assert.InDelta(t, 5, b.Rate, 0)
	assert.Equal(t, 256, b.Concurrency)
	assert.Equal(t, []time.Duration{100 * time.Millisecond, 15 * time.Second}, []time.Duration{b.From, b.To})
	b = chosen(t, "--scenario", "accuracy", "--delays", "1s-2s", "--step", "250ms")
	assert.Equal(t, 250*time.Millisecond, b.Step)
	b = chosen(t, "--scenario", "accuracy", "--delays", "1s, 5s,90s")
	assert.Equal(t, []time.Duration{time.Second, 5 * time.Second, 90 * time.Second}, b.Delays)
	assert.Equal(t, bench.Quick, chosen(t, "--quick").Size)
	assert.Equal(t, bench.Full, chosen(t, "--full").Size)
}

// TestSubjects: what is named is measured, and what is new, rounds up or takes long is measured only
// if it is named.
func TestSubjects(t *testing.T) {
	for flags, want := range map[string][]string{
		"--backend serve,plugin-client": {"serve ladder", "serve slots", "plugin-client"},
		"--backend serve/slots":         {"serve slots"},
		"--backend fixedtiers":          {"fixedtiers"},
		"--backend fixedtiers/few":      {"fixedtiers few"},
		"--backend controller/rounds":   {"controller rounds"},
		"--backend binaryladder/source --steps calendar --steps binary --tick 1s,1ms": {
			"binaryladder source calendar 1s", "binaryladder source binary 1s",
			"binaryladder source calendar 1ms", "binaryladder source binary 1ms",
		},
	} {
		args := append(strings.Fields(flags), "--queue-type", "quorum")
		assert.Equal(t, want, variantsOf(chosen(t, args...)), flags)
	}
	usual := variantsOf(chosen(t, "--queue-type", "quorum"))
	assert.Contains(t, usual, "binaryladder source")
	assert.NotContains(t, usual, "serve ladder")
	assert.NotContains(t, usual, "plugin-client")
	assert.Contains(t, variantsOf(chosen(t, "--steps", "1s,2s,4s")), "binaryladder source 1s+2 1s")
	assert.Contains(t, variantsOf(chosen(t, "--tick", "1ms")), "binaryladder topic 1ms")

	var controllers []string // the backend's default wheel, or what the queue type leaves
	for _, s := range chosen(t).Subjects {
		if s.Backend == "controller" {
			controllers = append(controllers, s.Name()+", "+s.QueueType)
		}
	}
	assert.Equal(t, []string{"controller slots, quorum", "controller rounds, classic"}, controllers)
}

func TestTheDefaultLadderIsTheOneThatUsersGet(t *testing.T) {
	source := shapes(nil, nil)[0]
	def := backend.Default().BinaryLadder
	assert.Equal(t, def, source.config(0))
	fine := source.config(time.Millisecond)
	assert.Equal(t, time.Millisecond, fine.Tick, "the scenario needs it")
	assert.Equal(t, time.Second, shape{tick: time.Second}.config(time.Millisecond).Tick, "what was asked for stays")
}

// Every link that some delay takes must be taken by a primer, and no other delay is one. Once 2,234
// primers were sent for four delays, and were most of what a delay of a minute seemed to cost.
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
		primers := s.prime(all, 0)
		assert.Equal(t, linksOf(t, s, all), linksOf(t, s, primers), "%+v", s)
		assert.Subset(t, all, primers)
		assert.LessOrEqual(t, len(primers), 1200)

		few := []time.Duration{s.tick, longest, longest}
		assert.Equal(t, []time.Duration{longest, s.tick}, s.prime(few, 0), "%+v", s)
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
	b := chosen(t, "--full")
	excluded := func(b bench.Benchmark, scenario, subject, queueType string) bool {
		i := slices.IndexFunc(b.Subjects, func(s bench.Subject) bool { return s.Name() == subject && s.QueueType == queueType })
		return b.Skip != nil && b.Skip(scenario, b.Subjects[i])
	}
	assert.False(t, excluded(b, "accuracy", "top-entry", "quorum"))
	assert.True(t, excluded(b, "backlog", "top-entry", "quorum"))
	assert.True(t, excluded(b, "accuracy", "plugin", "classic"))
	assert.True(t, excluded(b, "rate", "binaryladder topic", "quorum"))
	assert.False(t, excluded(b, "burst", "binaryladder source", "classic"))
	assert.True(t, excluded(b, "hol", "fixedtiers", "classic"))
	named := chosen(t, "--full", "--backend", "top-entry")
	assert.False(t, excluded(named, "backlog", "top-entry", "quorum"))
}

// TestEveryBackendIsASubject: also one that nothing here knows by name.
func TestEveryBackendIsASubject(t *testing.T) {
	var found []string
	for _, c := range candidates("quorum", shapes(nil, nil)) {
		if !c.Baseline && !c.named {
			found = append(found, c.Backend)
		}
	}
	assert.Equal(t, backend.Names(), slices.Compact(found))
}
