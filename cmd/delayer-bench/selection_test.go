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
	"github.com/delayer-go/delayer/internal/lab/bench"
)

// chosen is what delayer-bench with these flags would do.
func chosen(t *testing.T, flags ...string) bench.Benchmark {
	t.Helper()
	var c benchCmd
	parser, err := kong.New(&c, program().Vars)
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

func TestFlagsReachTheBenchmark(t *testing.T) {
	b := chosen(t, "--scenario", "accuracy,backlog", "--messages", "70000", "--rate", "5", "--delays", "100ms-15s")
	assert.Equal(t, []string{"accuracy", "backlog"}, b.Scenarios)
	assert.Equal(t, 70_000, b.Messages)
	assert.InDelta(t, 5, b.Rate, 0)
	assert.Equal(t, bench.Every(100*time.Millisecond, 15*time.Second), b.Delays)
	b = chosen(t, "--full", "--scenario", "accuracy", "--delays", "1s, 5s,90s")
	assert.Equal(t, []time.Duration{time.Second, 5 * time.Second, 90 * time.Second}, b.Delays)
	assert.Equal(t, bench.Full, b.Size)
}

// TestSubjects: what is named is measured, and what is new, rounds up or takes long is measured only
// if it is named.
func TestSubjects(t *testing.T) {
	for flags, want := range map[string][]string{
		"--backend serve,mixed-tiers": {"serve ladder", "serve slots", "mixed-tiers"},
		"--backend serve/slots":       {"serve slots"},
		"--backend fixedtiers":        {"fixedtiers"},
		"--backend fixedtiers/few":    {"fixedtiers few"},
		"--backend controller/rounds": {"controller rounds"},
		"--backend binaryladder/source --steps calendar --steps 1s,2s,4s": {
			"binaryladder source calendar", "binaryladder source 1s+2",
		},
	} {
		args := append(strings.Fields(flags), "--queue-type", "quorum")
		assert.Equal(t, want, variantsOf(chosen(t, args...)), flags)
	}
	usual := variantsOf(chosen(t, "--queue-type", "quorum"))
	assert.Contains(t, usual, "binaryladder source")
	assert.NotContains(t, usual, "serve ladder")
	assert.NotContains(t, usual, "mixed-tiers")

	var controllers []string // the backend's default wheel, or what the queue type leaves
	for _, s := range chosen(t).Subjects {
		if s.Backend == "controller" {
			controllers = append(controllers, s.Name()+", "+s.QueueType)
		}
	}
	assert.Equal(t, []string{"controller slots, quorum", "controller rounds, classic"}, controllers)
}

// TestTheLadderIsTheOneThatUsersGet: with the tick that the delays need.
func TestTheLadderIsTheOneThatUsersGet(t *testing.T) {
	for _, tick := range []time.Duration{time.Second, time.Millisecond} {
		cfg, err := candidates("quorum", nil)[0].config(bench.Env{Tick: tick})
		require.NoError(t, err)
		assert.Equal(t, binaryladder.Config{Tick: tick}, cfg.BinaryLadder)
	}
}

func TestAFullRunLeavesOutOnlyWhatNobodyNamed(t *testing.T) {
	find := func(b bench.Benchmark, subject, queueType string) *bench.Subject {
		for _, s := range b.Subjects {
			if s.Name() == subject && s.QueueType == queueType {
				return &s
			}
		}
		return nil
	}
	b := chosen(t, "--full")
	assert.Equal(t, []string{"accuracy", "cost", "hol"}, find(b, "top-entry", "quorum").Scenarios)
	assert.Equal(t, []string{"accuracy", "cost"}, find(b, "binaryladder topic", "quorum").Scenarios)
	assert.Nil(t, find(b, "binaryladder source", "classic").Scenarios)
	assert.NotNil(t, find(b, "plugin", "quorum"))
	assert.Nil(t, find(b, "plugin", "classic"), "it waits in no queue")
	assert.Nil(t, find(chosen(t, "--full", "--backend", "top-entry"), "top-entry", "quorum").Scenarios)
}

// TestEveryBackendIsASubject: also one that nothing here knows by name.
func TestEveryBackendIsASubject(t *testing.T) {
	var found []string
	for _, c := range candidates("quorum", nil) {
		if !c.Baseline && !c.named {
			found = append(found, c.Backend)
		}
	}
	assert.Equal(t, backend.Names(), slices.Compact(found))
}
