package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// small is enough to see a scenario at work.
var small = common{messages: 30, concurrency: 8, warmUp: 5, patience: time.Minute}

func shortly() accuracy {
	a := accuracy{small}
	a.due = Every(time.Second, 2*time.Second)
	return a
}

type benchmarks struct {
	*testing.T
	broker   *rabbit.Broker
	measured *rabbit.Broker // the same, or given, so that it is not taken down
	prefixes []string
}

// newBenchmarks share their broker with other tests: a benchmark of several scenarios restarts one
// that it may.
func newBenchmarks(t *testing.T) *benchmarks {
	t.Parallel()
	broker := rabbittest.Broker(t)
	given, err := rabbit.At(t.Context(), broker.URL(), "given")
	require.NoError(t, err)
	return &benchmarks{T: t, broker: broker, measured: given}
}

func (r *benchmarks) subject(name, queueType string) Subject {
	all := Baselines(queueType)
	s := all[slices.IndexFunc(all, func(s Subject) bool { return s.Backend == name })]
	open := s.Open
	s.Open = func(ctx context.Context, env Env) (delayer.Delayer, error) {
		r.prefixes = append(r.prefixes, env.Prefix)
		return open(ctx, env)
	}
	return s
}

func (r *benchmarks) benchmark(scenarios []scenario, subjects ...Subject) *report.Report {
	return runner{Benchmark{Broker: r.measured, Subjects: subjects}, scenarios}.run(r.Context(), meter{broker: r.measured})
}

// nothingLeft asks the broker, where that is ours, for anything that these benchmarks declared.
func (r *benchmarks) nothingLeft() {
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

// interrupting interrupts the benchmark after the warm-up.
type interrupting struct {
	delayer.Delayer
	interrupt func()
	published atomic.Int64
}

func (d *interrupting) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	if d.published.Add(1) > int64(small.warmUp+small.messages/2) {
		d.interrupt()
	}
	return d.Delayer.Publish(ctx, exchange, key, delay, msg)
}

// TestInterruption leaves a partial report and no queues, in a run and while a subject is opened.
func TestInterruption(t *testing.T) {
	r := newBenchmarks(t)
	ctx, interrupt := context.WithCancel(t.Context())
	subjects := []Subject{r.subject("undelayed", "classic"), r.subject(TopEntry, "classic")}
	open := subjects[1].Open
	subjects[1].Open = func(ctx context.Context, env Env) (delayer.Delayer, error) {
		d, err := open(ctx, env)
		return &interrupting{Delayer: d, interrupt: interrupt}, err
	}
	got := runner{Benchmark{Broker: r.measured, Subjects: subjects}, []scenario{shortly()}}.run(ctx, meter{broker: r.measured})
	assert.True(t, got.Partial)
	require.Len(t, got.Runs, 1, "the run that was interrupted says nothing")
	assert.Empty(t, got.Problems())

	ctx, interrupt = context.WithCancel(t.Context())
	subjects[1].Open = func(ctx context.Context, env Env) (delayer.Delayer, error) {
		interrupt()
		assert.NoError(t, ctx.Err(), "what is half open cannot be removed")
		return open(ctx, env)
	}
	got = runner{Benchmark{Broker: r.measured, Subjects: subjects[1:]}, []scenario{shortly()}}.run(ctx, meter{broker: r.measured})
	assert.True(t, got.Partial)
	assert.Empty(t, got.Problems())
	r.nothingLeft()
}

// TestASubjectThatCannotBeOpened: one that the broker lacks is skipped, and any other fails, also a
// baseline.
func TestASubjectThatCannotBeOpened(t *testing.T) {
	r := newBenchmarks(t)
	lacking := Subject{Backend: "lacking", QueueType: "classic", Open: func(context.Context, Env) (delayer.Delayer, error) {
		return nil, fmt.Errorf("%w: no such thing here", ErrSkip)
	}}
	failing := r.subject("undelayed", "classic")
	failing.Undelayed = false
	failing.Open = func(context.Context, Env) (delayer.Delayer, error) { return nil, errors.New("no permission") }
	got := r.benchmark([]scenario{shortly(), hol{quickly(1, time.Second)}}, lacking, failing)
	require.Len(t, got.Skipped, 1, "once, however many scenarios there are")
	assert.Equal(t, "skipped: lacking, classic queues: no such thing here", got.Skipped[0].String())
	require.Len(t, got.Runs, 2)
	assert.Contains(t, got.Runs[0].Error, "no permission")
	assert.Len(t, got.Problems(), 2)
}

// TestBacklog_Broker: the broker is restarted before, and what waits is removed afterwards.
func TestBacklog_Broker(t *testing.T) {
	broker := rabbittest.Alone(t)
	r := &benchmarks{T: t, broker: broker, measured: broker}
	process := func() string {
		pid, err := broker.Ctl(t.Context(), "eval", "os:getpid().")
		require.NoError(t, err)
		return pid
	}
	before := process()
	load := common{messages: 3000, concurrency: 16, warmUp: 5, patience: time.Minute, bodySize: 4, due: []time.Duration{time.Second}}
	deep := depth{common: load, probes: 20, probeRate: 100, settle: time.Second}
	got := r.benchmark([]scenario{deep}, r.subject("bit-entry", "classic"))
	require.Empty(t, got.Problems())
	require.Len(t, got.Runs, 1)
	run := got.Runs[0]
	assert.NotEqual(t, before, process(), "it was restarted")
	assert.Equal(t, 3000, run.Waiting)
	assert.Equal(t, 4, run.BodyBytes)
	assert.Equal(t, report.Counts{Published: 20, Delivered: 20}, run.Counts)
	assert.Positive(t, run.PublishPerS)
	r.nothingLeft()
}

// TestConsumerLost: what is missing is not called lost if it may have arrived unseen.
func TestConsumerLost(t *testing.T) {
	r := newBenchmarks(t)
	prefix := rabbittest.Prefix(t)
	d, err := openDestination(t.Context(), Env{URL: r.broker.URL(), Destination: prefix}, Receiving{}, func(string) {})
	require.NoError(t, err)
	s := &trial{recorder: newRecorder(), destination: d}
	require.NoError(t, s.awaitAll(t.Context(), time.Minute))
	require.NoError(t, d.client.Remove(t.Context(), d.topology()))
	require.Eventually(t, d.client.Interrupted, time.Minute, time.Millisecond)
	require.ErrorIs(t, s.awaitAll(t.Context(), time.Minute), errConsumerLost)
	require.NoError(t, d.remove(t.Context()))
}
