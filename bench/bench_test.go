package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/baseline"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// small is enough to see a scenario at work.
var small = bench.Load{Messages: 30, Concurrency: 8, WarmUp: 5, Patience: 5 * time.Second}

func accuracy() bench.Accuracy {
	return bench.Accuracy{Load: small, DelayMin: time.Second, DelayMax: 2 * time.Second}
}

// A rig runs benchmarks on the tests' broker, beside those of other tests, and knows what it declared.
type rig struct {
	*testing.T
	broker   *rabbit.Broker
	prefixes []string
}

func newRig(t *testing.T) *rig {
	t.Parallel()
	return &rig{T: t, broker: rabbittest.Broker(t)}
}

func (r *rig) subject(name, queueType string) bench.Subject {
	return bench.Subject{
		Backend: name, QueueType: queueType, Baseline: true, Undelayed: name == baseline.Undelayed,
		Open: func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
			r.prefixes = append(r.prefixes, env.Prefix)
			return baseline.Open(ctx, baseline.Config{
				URL: env.URL, Name: name, Prefix: env.Prefix, QueueType: queueType, Destination: env.Destination,
			})
		},
	}
}

func (r *rig) run(scenario bench.Scenario, subjects ...bench.Subject) *bench.Report {
	r.Helper()
	report := bench.Benchmark{
		URL: r.broker.URL(), Target: r.broker, Scenarios: []bench.Scenario{scenario}, Subjects: subjects,
	}.Run(r.Context())
	require.Len(r, report.Runs, len(subjects))
	return report
}

// nothingLeft asks the broker, where that is ours, for anything that this rig's benchmarks declared.
func (r *rig) nothingLeft() {
	r.Helper()
	if !r.broker.Owned() {
		return
	}
	require.NotEmpty(r, r.prefixes)
	for _, what := range []string{"list_queues", "list_exchanges"} {
		names, err := r.broker.Ctl(r.Context(), "--quiet", what, "name")
		require.NoError(r, err)
		for _, prefix := range r.prefixes {
			assert.NotContains(r, names, prefix, "left in the broker")
		}
	}
}

func TestAccuracy_Broker(t *testing.T) {
	r := newRig(t)
	report := r.run(accuracy(),
		r.subject(baseline.Undelayed, "classic"), r.subject(baseline.PerMessageTTL, "quorum"),
		r.subject(baseline.TopEntry, "classic"), r.subject(baseline.BitEntry, "quorum"))
	for _, run := range report.Runs {
		name := run.Subject() + ", " + run.QueueType
		require.Empty(t, run.Error, name)
		assert.Equal(t, bench.Counts{Published: small.Messages, Delivered: small.Messages}, run.Counts, name)
		assert.Positive(t, run.PublishPerS, name)
		assert.Positive(t, run.Lateness.Min, "%s arrived at the very moment it was due", name)
		assert.Len(t, run.Samples, small.Messages, name)
	}
	r.nothingLeft()
}

func TestHOL_Broker(t *testing.T) {
	r := newRig(t)
	hol := bench.HOL{Load: small, Long: 4 * time.Second, Short: time.Second}
	report := r.run(hol, r.subject(baseline.PerMessageTTL, "classic"), r.subject(baseline.BitEntry, "classic"))
	blocked, ladder := report.Runs[0], report.Runs[1]
	assert.Greater(t, blocked.Lateness.P50, 2000.0, "the short messages should have waited for the long one")
	assert.Less(t, ladder.Lateness.P50, 1000.0, "the ladder should not block")
	for _, run := range report.Runs {
		assert.Equal(t, small.Messages+1, run.Delivered)
		assert.Zero(t, run.Early+run.Lost+run.Duplicated)
		assert.Zero(t, run.BrokerCPU, "the cost of waiting is not the cost of a message")
	}
	r.nothingLeft()
}

// hasty delivers after half a second, whatever the delay.
type hasty struct{ *baseline.Baseline }

func (h hasty) Publish(ctx context.Context, exchange, key string, _ time.Duration, msg amqp091.Publishing) error {
	return h.Baseline.Publish(ctx, exchange, key, 500*time.Millisecond, msg)
}

func TestEarlyFailsAnythingButABaseline(t *testing.T) {
	r := newRig(t)
	early := r.subject(baseline.PerMessageTTL, "classic")
	open := early.Open
	early.Open = func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
		d, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		return hasty{d.(*baseline.Baseline)}, nil
	}
	accused := early
	accused.Baseline = false
	scenario := bench.Accuracy{Load: small, DelayMin: time.Minute, DelayMax: time.Minute} // early on a slow machine, too
	report := r.run(scenario, early, accused)
	assert.Equal(t, small.Messages, report.Runs[0].Early)
	assert.Empty(t, report.Runs[0].Problem())
	require.Len(t, report.Problems(), 1)
	assert.Contains(t, report.Problems()[0], "30 early")
}

func TestInterruptionLeavesAPartialReportAndNoQueues(t *testing.T) {
	r := newRig(t)
	ctx, interrupt := context.WithCancel(t.Context())
	report := bench.Benchmark{
		URL: r.broker.URL(), Target: r.broker, Scenarios: []bench.Scenario{accuracy()},
		Subjects: []bench.Subject{r.subject(baseline.Undelayed, "classic"), r.subject(baseline.TopEntry, "classic")},
		Progress: func(e bench.Event) {
			if e.Step == 2 && e.Published > int64(small.WarmUp) {
				interrupt()
			}
		},
	}.Run(ctx)
	assert.True(t, report.Partial)
	require.Len(t, report.Runs, 1, "the run that was interrupted says nothing")
	assert.Empty(t, report.Problems())
	r.nothingLeft()
}

func TestInterruptionWhileOpening(t *testing.T) {
	r := newRig(t)
	ctx, interrupt := context.WithCancel(t.Context())
	subject := r.subject(baseline.TopEntry, "classic")
	open := subject.Open
	subject.Open = func(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
		interrupt()
		assert.NoError(t, ctx.Err(), "what is half open cannot be removed")
		return open(ctx, env)
	}
	report := bench.Benchmark{
		URL: r.broker.URL(), Target: r.broker, Scenarios: []bench.Scenario{accuracy()}, Subjects: []bench.Subject{subject},
	}.Run(ctx)
	assert.True(t, report.Partial)
	assert.Empty(t, report.Problems())
	r.nothingLeft()
}

func TestASubjectThatCannotBeOpenedIsReported(t *testing.T) {
	r := newRig(t)
	report := r.run(accuracy(), r.subject("no-such-baseline", "classic"))
	assert.Contains(t, report.Runs[0].Error, "no-such-baseline")
	assert.Len(t, report.Problems(), 1, "nothing was measured: that fails a baseline too")
	r.nothingLeft()
}

func TestRate_Broker(t *testing.T) {
	r := newRig(t)
	report := r.run(bench.Rate{
		Load:     bench.Load{Concurrency: 32, WarmUp: 5, Patience: 5 * time.Second},
		DelayMin: time.Second, DelayMax: time.Second, Probe: 500 * time.Millisecond, Settle: 100 * time.Millisecond,
		Limit: 5 * time.Second, First: 50, Most: 200, Budget: time.Minute,
	}, r.subject(baseline.BitEntry, "classic"))
	run := report.Runs[0]
	assert.Empty(t, run.Error)
	assert.InDelta(t, 200.0, run.MaxRate, 0, "%+v", run.Probes)
	assert.Len(t, run.Probes, 3)
	assert.Equal(t, 25+50+100, run.Delivered)
	assert.Equal(t, "rate", run.Scenario)
	r.nothingLeft()
}

func TestASubjectThatTheBrokerLacksIsNamed(t *testing.T) {
	r := newRig(t)
	lacking := bench.Subject{Backend: "lacking", QueueType: "classic", Open: func(context.Context, bench.Env) (delayer.Delayer, error) {
		return nil, fmt.Errorf("%w: no such thing here", bench.ErrSkip)
	}}
	report := bench.Benchmark{
		URL: r.broker.URL(), Target: r.broker, Scenarios: []bench.Scenario{accuracy(), bench.HOL{}}, Subjects: []bench.Subject{lacking},
	}.Run(t.Context())
	assert.Empty(t, report.Runs)
	assert.Empty(t, report.Problems())
	require.Len(t, report.Skipped, 1, "once, however many scenarios there are")
	assert.Equal(t, "skipped: lacking, classic queues: no such thing here", report.Skipped[0].String())
}
