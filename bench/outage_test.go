package bench

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
	"github.com/delayer-go/delayer/bench/internal/baseline"
	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// ours is a subject that promises something.
func (r *benchmarks) ours(queueType string) Subject {
	config := func(env Env) backend.Config {
		return backend.Config{
			Options:      delayer.Options{URL: env.URL, Prefix: env.Prefix, QueueType: delayer.QueueType(queueType), Logger: slog.New(slog.DiscardHandler)},
			BinaryLadder: shortLadder(env),
		}
	}
	return Subject{
		Backend: "binaryladder", QueueType: queueType, Ladder: true,
		Open: func(ctx context.Context, env Env) (delayer.Delayer, error) {
			r.prefixes = append(r.prefixes, env.Prefix)
			return backend.Open(ctx, config(env))
		},
		Remove: func(ctx context.Context, env Env) error {
			const withMessages = true
			return backend.Remove(ctx, config(env), withMessages)
		},
	}
}

// shortLadder has no more steps than the delays need: with quorum queues each is a Raft group.
func shortLadder(env Env) binaryladder.Config {
	tick := cmp.Or(env.Tick, time.Second)
	steps := []time.Duration{tick}
	for step := 2 * tick; step < 2*slices.Max(env.Delays); step *= 2 {
		steps = append(steps, step)
	}
	return binaryladder.Config{Tick: tick, Steps: binaryladder.List(steps...)}
}

// aloneBenchmarks have a broker that nobody else uses meanwhile, and may take it down.
func aloneBenchmarks(t *testing.T) *benchmarks {
	broker := rabbittest.Alone(t)
	target := targetOf(broker)
	target.Stop, target.Kill, target.Start = broker.Stop, broker.Kill, broker.Run
	return &benchmarks{T: t, broker: broker, target: target}
}

// unhurried is a load for a busy machine: nothing is lost because it is slow.
func unhurried(n int) common {
	return common{messages: n, concurrency: 16, warmUp: 5, patience: time.Minute}
}

func TestCrash_Broker(t *testing.T) {
	r := aloneBenchmarks(t)
	crash := crash{
		common: unhurried(200), from: 2 * time.Second, to: 8 * time.Second, settle: 3 * time.Second,
	}
	got := r.run(crash, r.ours("quorum"))
	run := got.Runs[0]
	require.Empty(t, got.Problems())
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
	r := aloneBenchmarks(t)
	recovery := recovery{
		common: unhurried(300), due: 50, from: 3 * time.Second, to: 6 * time.Second, settle: 2 * time.Second,
	}
	// A baseline does not connect again by itself: its topology is removed all the same.
	got := r.run(recovery, r.subject(baseline.BitEntry, "quorum"))
	require.Empty(t, got.Problems())
	run := got.Runs[0]
	assert.Equal(t, 300, run.Waiting)
	assert.Equal(t, 50, run.Published)
	assert.Equal(t, 50, run.Delivered)
	assert.Greater(t, run.ServesMS, run.DownMS)
	assert.True(t, run.LossDeclared, "a baseline promises nothing")
	r.nothingLeft()
}

func TestBacklog_Broker(t *testing.T) {
	r := aloneBenchmarks(t)
	load := unhurried(3000)
	load.bodySize = 4
	deep := depth{common: load, probes: 20, probeRate: 100, settle: time.Second, from: time.Second, to: time.Second}
	run := r.run(deep, r.ours("classic")).Runs[0]
	require.Empty(t, run.Problem())
	assert.Equal(t, 3000, run.Waiting)
	assert.Equal(t, 4, run.BodyBytes)
	assert.Equal(t, report.Counts{Published: 20, Delivered: 20}, run.Counts)
	assert.Positive(t, run.PublishPerS)
	r.nothingLeft()
}

func TestBurstMixHops_Broker(t *testing.T) {
	for _, s := range []scenario{
		burst{common: unhurried(200), spread: 2 * time.Second, lead: time.Second},
		mix{common: unhurried(50), long: 3 * time.Second, short: time.Second, every: 10},
		hops{common: unhurried(50), bits: []int{1, 4}},
	} {
		t.Run(s.about().Name, func(t *testing.T) {
			r := newBenchmarks(t)
			got := r.benchmark([]scenario{s}, r.ours("quorum"))
			require.Len(t, got.Runs, 1)
			require.Empty(t, got.Problems())
			assert.Equal(t, got.Runs[0].Published, got.Runs[0].Delivered)
			assert.NotEmpty(t, got.Runs[0].Distribution)
			r.nothingLeft()
		})
	}
}

func TestOutage_BrokerNotOurs(t *testing.T) {
	r := newBenchmarks(t)
	got := r.benchmark([]scenario{crash{}, recovery{}}, r.ours("quorum"))
	assert.Empty(t, got.Runs)
	assert.Len(t, got.Skipped, 2)
	assert.Empty(t, got.Problems())
}
