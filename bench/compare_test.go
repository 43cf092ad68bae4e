package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func compareRuns(t *testing.T, before, after []Run) Comparison {
	t.Helper()
	c, err := Compare(&Report{Runs: before}, &Report{Runs: after}, 0.2)
	require.NoError(t, err)
	return c
}

func (c Comparison) figure(t *testing.T, name string) Change {
	t.Helper()
	i := slices.IndexFunc(c.Changes, func(ch Change) bool { return ch.Figure == name })
	require.NotEqual(t, -1, i, name)
	return c.Changes[i]
}

func TestCompareJudgesBothDirections(t *testing.T) {
	for name, c := range map[string]struct {
		figure        string
		before, after Run
		worse, beyond bool
	}{
		"same":             {"CPU", accurate("s", 10, 100), accurate("s", 10, 100), false, false},
		"more CPU":         {"CPU", accurate("s", 10, 100), accurate("s", 10, 121), true, true},
		"a little more":    {"CPU", accurate("s", 10, 100), accurate("s", 10, 120), true, false},
		"less CPU":         {"CPU", accurate("s", 10, 100), accurate("s", 10, 79), false, true},
		"later":            {"late p99", accurate("s", 10, 100), accurate("s", 13, 100), true, true},
		"a millisecond":    {"late p99", accurate("s", 1, 100), accurate("s", 2, 100), true, false},
		"from nothing":     {"late p99", accurate("s", 0, 100), accurate("s", 1.5, 100), true, true},
		"slower publisher": {"publish", publishing(1000), publishing(700), true, true},
		"faster publisher": {"publish", publishing(1000), publishing(1300), false, true},
		"no rate in time":  {"in time to", rated(4000), rated(0), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			comparison := compareRuns(t, []Run{c.before}, []Run{c.after})
			got := comparison.figure(t, c.figure)
			assert.Equal(t, c.worse, got.Worse, "worse")
			assert.Equal(t, c.beyond, got.Beyond, "beyond")
			assert.Equal(t, c.worse && c.beyond, comparison.Worse())
		})
	}
}

func publishing(rate float64) Run {
	return did("accuracy", "s", func(r *Run) { r.PublishPerS = rate })
}

func rated(highest float64) Run {
	return did("rate", "s", func(r *Run) { r.MaxRate, r.Probes = highest, []Probe{{Rate: 500}} })
}

func TestANewFaultIsBeyondAnyTolerance(t *testing.T) {
	for name, fault := range map[string]func(*Run){
		"lost": func(r *Run) { r.Lost = 1 }, "twice": func(r *Run) { r.Duplicated = 1 },
		"early": func(r *Run) { r.Early = 1 }, "failed": func(r *Run) { r.Error = "no permission" },
	} {
		fine, faulty := did("accuracy", "s", func(*Run) {}), did("accuracy", "s", fault)
		c, err := Compare(&Report{Runs: []Run{fine}}, &Report{Runs: []Run{faulty}}, 1000)
		require.NoError(t, err)
		assert.True(t, c.Worse(), name)
		assert.True(t, c.figure(t, name).Beyond, name)
		c, err = Compare(&Report{Runs: []Run{faulty}}, &Report{Runs: []Run{fine}}, 1000)
		require.NoError(t, err)
		assert.False(t, c.Worse(), "%s: that it is gone is no harm", name)
	}
}

func TestCompareDoesNotJudgeWhatOneDidNotMeasure(t *testing.T) {
	c := compareRuns(t, []Run{accurate("s", 10, 100)}, []Run{accurate("s", 10, 0)})
	assert.False(t, c.Worse())
	assert.False(t, slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Figure == "CPU" }))
	hops := func(cpu float64) Run {
		return did("hops", "s", func(r *Run) { r.ByHops = []HopCost{{Hops: 4, BrokerCPU: cpu}, {Hops: 13, BrokerCPU: 2 * cpu}} })
	}
	c = compareRuns(t, []Run{hops(100)}, []Run{hops(200)})
	assert.True(t, c.figure(t, "CPU, 4 hops").Beyond)
	assert.True(t, c.figure(t, "CPU, 13 hops").Beyond, "whatever numbers of hops there are")
}

func TestCompareTakesMediansOfFiguresAndSumsOfFaults(t *testing.T) {
	before := []Run{accurate("s", 10, 100), accurate("s", 500, 110), accurate("s", 12, 120)}
	after := []Run{accurate("s", 11, 100), accurate("s", 13, 110), accurate("s", 12, 5000)}
	assert.False(t, compareRuns(t, before, after).Worse())
	after[2].Lost = 1
	assert.Equal(t, 1.0, compareRuns(t, before, after).figure(t, "lost").After)
}

func TestCompareNamesWhatOnlyOneHas(t *testing.T) {
	quorum, classic := accurate("s", 1, 1), accurate("s", 1, 1)
	classic.QueueType = "classic"
	c := compareRuns(t, []Run{quorum, classic}, []Run{quorum, accurate("new", 1, 1)})
	assert.Equal(t, []string{"accuracy, s, classic queues"}, c.OnlyA)
	assert.Equal(t, []string{"accuracy, new, quorum queues"}, c.OnlyB)

	_, err := Compare(&Report{Runs: []Run{quorum}}, &Report{Runs: []Run{classic}}, 0.2)
	require.ErrorIs(t, err, ErrNothingInCommon)
	_, err = Compare(&Report{}, &Report{}, -1)
	assert.ErrorContains(t, err, "negative")
}

func TestCompareSaysWhatElseIsDifferent(t *testing.T) {
	a, b := example(), example()
	b.Broker.Version, b.Machine.CPUs, b.Partial = "4.3.6", 8, false
	b.Runs[0].Messages = 20000
	c, err := Compare(a, b, 0.2)
	require.NoError(t, err)
	said := strings.Join(c.Settings, "\n")
	assert.Contains(t, said, "broker: RabbitMQ 3.10.8, private node, then RabbitMQ 4.3.6, private node")
	assert.Contains(t, said, "machine: 2 cores, linux/amd64, go1.26.0, then 8 cores")
	assert.Contains(t, said, "the first report is partial")
	assert.Contains(t, said, "accuracy, binaryladder source, quorum queues: 2 messages, as fast as confirmed, 64 publishers, 1s–2s, then 20,000 messages")
}

func TestComparisonAsText(t *testing.T) {
	faulty := accurate("binaryladder source", 13, 60)
	faulty.Early = 2
	c := compareRuns(t, []Run{accurate("binaryladder source", 10, 100), accurate("gone", 1, 1)}, []Run{faulty})
	var out bytes.Buffer
	require.NoError(t, c.WriteText(&out))
	assert.Equal(t, ` scenario  subject              queues  figure    before  after          change
 accuracy  binaryladder source  quorum  CPU          100     60  µs/msg   −40 %  better
 accuracy  binaryladder source  quorum  late p99      10     13  ms       +30 %  worse
 accuracy  binaryladder source  quorum  early          0      2  msg        new  worse

only in the first report: accuracy, gone, quorum queues
2 figures worse, 1 better, 4 within 20 %.
`, out.String())
}
