package bench_test

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/baseline"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// shared hides that a broker may be taken down: other tests use it as well.
type shared struct{ bench.Target }

// ours is a subject that promises something.
func (r *rig) ours(queueType string) bench.Subject {
	return bench.Subject{
		Backend: "binaryladder", QueueType: queueType, Ladder: true,
		Open: func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
			r.prefixes = append(r.prefixes, env.Prefix)
			cfg := backend.Config{
				Options: delayer.Options{URL: env.URL, Prefix: env.Prefix, QueueType: delayer.QueueType(queueType), Logger: slog.New(slog.DiscardHandler)},
			}
			cfg.BinaryLadder = shortLadder(env)
			return backend.Open(ctx, cfg)
		},
	}
}

// shortLadder has no more steps than the delays need: with quorum queues each is a Raft group.
func shortLadder(env bench.Env) binaryladder.Config {
	tick := cmp.Or(env.Tick, time.Second)
	steps := []time.Duration{tick}
	for step := 2 * tick; step < 2*slices.Max(env.Delays); step *= 2 {
		steps = append(steps, step)
	}
	return binaryladder.Config{Tick: tick, Steps: binaryladder.List(steps...)}
}

// aloneRig has a broker that nobody else uses meanwhile.
func aloneRig(t *testing.T) *rig { return &rig{T: t, broker: rabbittest.Alone(t)} }

// unhurried is a load for a busy machine: nothing is lost because it is slow.
func unhurried(n int) bench.Load {
	return bench.Load{Messages: n, Concurrency: 16, WarmUp: 5, Patience: time.Minute}
}

func TestCrash_Broker(t *testing.T) {
	r := aloneRig(t)
	crash := bench.Crash{
		Load: unhurried(200), DelayMin: 2 * time.Second, DelayMax: 8 * time.Second, Settle: 3 * time.Second,
	}
	report := r.run(crash, r.ours("quorum"))
	run := report.Runs[0]
	require.Empty(t, report.Problems())
	assert.Equal(t, 200, run.Published)
	assert.Equal(t, 200, run.Delivered, "at least once")
	assert.False(t, run.LossDeclared)
	assert.True(t, run.Outage)
	assert.Positive(t, run.DownMS)
	assert.Greater(t, run.ServesMS, run.DownMS)
	assert.Zero(t, run.BrokerCPU)
	r.nothingLeft()
}

func TestRecovery_Broker(t *testing.T) {
	r := aloneRig(t)
	recovery := bench.Recovery{
		Load: unhurried(300), Due: 50, From: 3 * time.Second, To: 6 * time.Second, Settle: 2 * time.Second,
	}
	// A baseline does not connect again by itself: its topology is removed all the same.
	report := r.run(recovery, r.subject(baseline.BitEntry, "quorum"))
	require.Empty(t, report.Problems())
	run := report.Runs[0]
	assert.Equal(t, 300, run.Waiting)
	assert.Equal(t, 50, run.Published)
	assert.Equal(t, 50, run.Delivered)
	assert.Greater(t, run.ServesMS, run.DownMS)
	assert.True(t, run.LossDeclared, "a baseline promises nothing")
	r.nothingLeft()
}

func TestBacklog_Broker(t *testing.T) {
	r := aloneRig(t)
	load := unhurried(3000)
	load.Body = 4
	backlog := bench.Backlog{Load: load, Probes: 20, ProbeRate: 100, Settle: time.Second, From: time.Second, To: time.Second}
	run := r.run(backlog, r.ours("classic")).Runs[0]
	require.Empty(t, run.Problem())
	assert.Equal(t, 3000, run.Waiting)
	assert.Equal(t, 4, run.BodyBytes)
	assert.Equal(t, bench.Counts{Published: 20, Delivered: 20}, run.Counts)
	assert.Positive(t, run.PublishPerS)
	r.nothingLeft()
}

func TestBurstMixHops_Broker(t *testing.T) {
	for _, scenario := range []bench.Scenario{
		bench.Burst{Load: unhurried(200), Spread: 2 * time.Second, Lead: time.Second},
		bench.Mix{Load: unhurried(50), Long: 3 * time.Second, Short: time.Second, Every: 10},
		bench.Hops{Load: unhurried(50), Hops: []int{1, 4}},
	} {
		t.Run(scenario.Name(), func(t *testing.T) {
			r := newRig(t)
			report := bench.Benchmark{
				URL: r.broker.URL(), Target: shared{r.broker}, Scenarios: []bench.Scenario{scenario},
				Subjects: []bench.Subject{r.ours("quorum")},
			}.Run(t.Context())
			require.Len(t, report.Runs, 1)
			require.Empty(t, report.Problems())
			assert.Equal(t, report.Runs[0].Published, report.Runs[0].Delivered)
			assert.NotEmpty(t, report.Runs[0].Distribution)
			r.nothingLeft()
		})
	}
}

func TestOutage_BrokerNotOurs(t *testing.T) {
	r := newRig(t)
	report := bench.Benchmark{
		URL: r.broker.URL(), Target: shared{r.broker}, Scenarios: []bench.Scenario{bench.Crash{}, bench.Recovery{}},
		Subjects: []bench.Subject{r.ours("quorum")},
	}.Run(t.Context())
	assert.Empty(t, report.Runs)
	assert.Len(t, report.Skipped, 2)
	assert.Empty(t, report.Problems())
}
