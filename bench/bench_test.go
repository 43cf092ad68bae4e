package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/bench/internal/baseline"
	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// small is enough to see a scenario at work.
var small = common{messages: 30, concurrency: 8, warmUp: 5, patience: time.Minute}

func shortly() accuracy {
	return accuracy{common: small, from: time.Second, to: 2 * time.Second, step: time.Second}
}

// benchmarks run on a broker of the tests, and know what they declared.
type benchmarks struct {
	*testing.T
	broker   *rabbit.Broker
	target   Target
	prefixes []string
}

// newBenchmarks share their broker with other tests, so they cannot take it down: a benchmark of
// several scenarios restarts a broker that it can.
func newBenchmarks(t *testing.T) *benchmarks {
	t.Parallel()
	broker := rabbittest.Broker(t)
	return &benchmarks{T: t, broker: broker, target: targetOf(broker)}
}

func (r *benchmarks) subject(name, queueType string) Subject {
	config := func(env Env) baseline.Config {
		return baseline.Config{URL: env.URL, Name: name, Prefix: env.Prefix, QueueType: queueType, Destination: env.Destination}
	}
	return Subject{
		Backend: name, QueueType: queueType, Baseline: true, Undelayed: name == baseline.Undelayed,
		Open: func(ctx context.Context, env Env) (delayer.Delayer, error) {
			r.prefixes = append(r.prefixes, env.Prefix)
			return baseline.Open(ctx, config(env))
		},
		Remove: func(ctx context.Context, env Env) error { return baseline.Remove(ctx, config(env)) },
	}
}

func (r *benchmarks) benchmark(scenarios []scenario, subjects ...Subject) *report.Report {
	r.Helper()
	got, err := runner{Benchmark{Target: r.target, Subjects: subjects}, scenarios}.run(r.Context())
	require.NoError(r, err)
	return got
}

func targetOf(b *rabbit.Broker) Target {
	return Target{URL: b.URL(), Product: b.Product(), Version: b.Version(), How: b.How(), CPU: b.CPU, Memory: b.RSS, Disk: b.Disk}
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

func TestAccuracy_Broker(t *testing.T) {
	r := newBenchmarks(t)
	var raw bytes.Buffer
	got, err := runner{Benchmark{Target: r.target, Samples: &raw, Subjects: []Subject{
		r.subject(baseline.Undelayed, "classic"), r.subject(baseline.PerMessageTTL, "quorum"),
		r.subject(baseline.TopEntry, "classic"), r.subject(baseline.BitEntry, "quorum"),
	}}, []scenario{shortly()}}.run(t.Context())
	require.NoError(t, err)
	require.Len(t, got.Runs, 4)
	assert.Len(t, rawRows(t, &raw), 1+4*small.messages)
	for _, run := range got.Runs {
		name := run.Subject() + ", " + run.QueueType
		require.Empty(t, run.Error, name)
		assert.Equal(t, report.Counts{Published: small.messages, Delivered: small.messages}, run.Counts, name)
		assert.Positive(t, run.PublishPerS, name)
		assert.Positive(t, run.Lateness.Min, "%s arrived at the very moment it was due", name)
	}
	r.nothingLeft()
}

// TestReceiving_Broker: messages come by an exchange from a quorum queue to several consumers, and
// nothing is left.
func TestReceiving_Broker(t *testing.T) {
	r := newBenchmarks(t)
	rig := rabbittest.NewRig(t, r.broker)
	to := make(chan string, 1)
	s := r.subject(baseline.Undelayed, "quorum")
	s.Hops = func(_ time.Duration, delays ...time.Duration) []int { return slices.Repeat([]int{3}, len(delays)) }
	open := s.Open
	s.Open = func(ctx context.Context, env Env) (delayer.Delayer, error) {
		d, err := open(ctx, env)
		return literal{d, rig, to}, err
	}
	got, err := runner{Benchmark{
		Target: r.target, Subjects: []Subject{s}, Receiving: Receiving{Exchange: true, Quorum: true, Consumers: 3},
	}, []scenario{shortly()}}.run(t.Context())
	require.NoError(t, err)
	require.Empty(t, got.Problems())
	require.Equal(t, small.messages, got.Runs[0].Delivered)
	require.InDelta(t, 3, got.Runs[0].Hops, 0)
	require.Contains(t, got.Scenarios[0].Setup, "published to an exchange, received from a quorum queue with acknowledgements, by 3 consumers")
	const durable, autoDelete, internal, noWait = true, false, false, false
	err = rig.Channel().ExchangeDeclarePassive(rabbittest.Next(t, to), amqp091.ExchangeDirect, durable, autoDelete, internal, noWait, nil)
	require.ErrorContains(t, err, "NOT_FOUND", "it is removed")
}

// literal publishes where it is told to, at once.
type literal struct {
	delayer.Delayer
	rig *rabbittest.Rig
	to  chan string // the first exchange
}

func (l literal) Publish(_ context.Context, exchange, key string, _ time.Duration, msg amqp091.Publishing) error {
	select {
	case l.to <- exchange:
	default:
	}
	l.rig.Publish(exchange, key, msg)
	return nil
}

func TestInterruptionLeavesAPartialReportAndNoQueues(t *testing.T) {
	r := newBenchmarks(t)
	ctx, interrupt := context.WithCancel(t.Context())
	got, err := runner{Benchmark{
		Target: r.target, Subjects: []Subject{r.subject(baseline.Undelayed, "classic"), r.subject(baseline.TopEntry, "classic")},
		Progress: func(e Event) {
			if e.Step == 2 && e.Published > int64(small.warmUp) {
				interrupt()
			}
		},
	}, []scenario{shortly()}}.run(ctx)
	require.NoError(t, err)
	assert.True(t, got.Partial)
	require.Len(t, got.Runs, 1, "the run that was interrupted says nothing")
	assert.Empty(t, got.Problems())
	r.nothingLeft()
}

func TestInterruptionWhileOpening(t *testing.T) {
	r := newBenchmarks(t)
	ctx, interrupt := context.WithCancel(t.Context())
	subject := r.subject(baseline.TopEntry, "classic")
	open := subject.Open
	subject.Open = func(ctx context.Context, env Env) (delayer.Delayer, error) {
		interrupt()
		assert.NoError(t, ctx.Err(), "what is half open cannot be removed")
		return open(ctx, env)
	}
	got, err := runner{Benchmark{Target: r.target, Subjects: []Subject{subject}}, []scenario{shortly()}}.run(ctx)
	require.NoError(t, err)
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
	got := r.benchmark([]scenario{shortly(), hol{}}, lacking, r.subject("no-such-baseline", "classic"))
	require.Len(t, got.Skipped, 1, "once, however many scenarios there are")
	assert.Equal(t, "skipped: lacking, classic queues: no such thing here", got.Skipped[0].String())
	require.Len(t, got.Runs, 2)
	assert.Contains(t, got.Runs[0].Error, "no-such-baseline")
	assert.Len(t, got.Problems(), 2)
	r.nothingLeft()
}

// TestBacklog_Broker: the broker is restarted before, and what waits is removed afterwards.
func TestBacklog_Broker(t *testing.T) {
	broker := rabbittest.Alone(t)
	target := targetOf(broker)
	restarts := 0
	target.Restart = func(ctx context.Context) error {
		restarts++
		return errors.Join(broker.Stop(ctx), broker.Run(ctx))
	}
	r := &benchmarks{T: t, broker: broker, target: target}
	load := common{messages: 3000, concurrency: 16, warmUp: 5, patience: time.Minute, bodySize: 4}
	deep := depth{common: load, probes: 20, probeRate: 100, settle: time.Second, from: time.Second, to: time.Second}
	got := r.benchmark([]scenario{deep}, r.subject(baseline.BitEntry, "classic"))
	require.Empty(t, got.Problems())
	require.Len(t, got.Runs, 1)
	run := got.Runs[0]
	assert.Equal(t, 1, restarts)
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
	d, err := openDestination(t.Context(), Env{URL: r.target.URL, Destination: prefix}, Receiving{}, func(string) {})
	require.NoError(t, err)
	s := &trial{recorder: newRecorder(), destination: d}
	require.NoError(t, s.awaitAll(t.Context(), time.Minute))
	require.NoError(t, d.client.Do(t.Context(), func(ch *amqp091.Channel) error {
		const ifUnused, ifEmpty, noWait = false, false, false
		_, err := ch.QueueDelete(prefix, ifUnused, ifEmpty, noWait)
		return err
	}))
	require.Eventually(t, d.client.Interrupted, time.Minute, time.Millisecond)
	require.ErrorIs(t, s.awaitAll(t.Context(), time.Minute), errConsumerLost)
	require.NoError(t, d.remove(t.Context()))
}
