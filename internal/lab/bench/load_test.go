package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// memory is a Delayer without a broker. fate says what becomes of a message: when each copy
// arrives. It is called by one publisher at a time.
type memory struct {
	delayer.Delayer // nil: nothing else is called

	arrival func(id string)
	fate    func(delay time.Duration) (copies []time.Duration)
	slow    time.Duration // how long Publish takes
	err     error
	timers  sync.WaitGroup
	mu      sync.Mutex
}

func (m *memory) Publish(_ context.Context, _, _ string, delay time.Duration, msg amqp091.Publishing) error {
	m.mu.Lock()
	copies := m.fate(delay)
	m.mu.Unlock()
	for _, after := range copies {
		m.timers.Go(func() {
			time.Sleep(after)
			m.arrival(msg.MessageId)
		})
	}
	time.Sleep(m.slow)
	return m.err
}

func (*memory) Limits() delayer.Limits { return delayer.Limits{Max: time.Hour} }
func (*memory) Close() error           { return nil }

func onTime(delay time.Duration) []time.Duration { return []time.Duration{delay} }

// inMemory publishes one load through m, in the time of a synctest bubble, and returns the samples.
func inMemory(t *testing.T, m *memory, l load) (samples []sample, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &trial{recorder: newRecorder(), delayer: m, destination: &destination{queue: "q"}}
		m.arrival = s.recorder.arrival
		err = s.publish(t.Context(), l)
		require.NoError(t, s.recorder.Await(t.Context(), 10*time.Second))
		m.timers.Wait()
		samples = s.recorder.samples()
	})
	return samples, err
}

func seconds(n int) []time.Duration { return slices.Repeat([]time.Duration{time.Second}, n) }

func TestARateIsKept(t *testing.T) {
	samples, err := inMemory(t, &memory{fate: onTime, slow: time.Millisecond}, load{delays: seconds(51), rate: 10, workers: 4})
	require.NoError(t, err)
	assert.InDelta(t, 10.2, publishRate(samples), 0.01) // 51 in 5 s
	assert.InDelta(t, 0, latenessOf(samples).Max, 1)
}

func TestALoadThatOnlyFailsEnds(t *testing.T) {
	m := &memory{fate: func(time.Duration) []time.Duration { return nil }, err: errors.New("refused")}
	samples, err := inMemory(t, m, load{delays: seconds(10_000), workers: 1})
	require.ErrorContains(t, err, "too many messages failed: refused")
	assert.Equal(t, maxFailures+1, count(samples).Failed)
	assert.Equal(t, "refused", summarise(samples, nil).Error)
}

func TestALoadThatStallsEnds(t *testing.T) {
	m := &memory{fate: onTime, slow: 2 * stall}
	_, err := inMemory(t, m, load{delays: seconds(10), workers: 1})
	require.ErrorIs(t, err, errStalled)
}

// TestAMessageCostsWhatTheIdleBrokerDoesNot: what the broker uses anyway is taken off once, but not
// what it uses while it starts.
func TestAMessageCostsWhatTheIdleBrokerDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share, used, since := 0.25, time.Duration(0), time.Now()
		starts := since.Add(settling)
		m := newMeter(t.Context(), &fake{cpu: func() time.Duration {
			used, since = used+time.Duration(share*float64(time.Since(since)))+max(0, time.Until(starts)), time.Now()
			return used
		}})
		before := m.read()
		share = 0.75
		time.Sleep(4 * time.Second)
		assert.InDelta(t, 2e6/100, m.perMessage(before, m.read(), 100), 1, "half a core for 4 s is 2 s, of 100 messages")
		assert.Zero(t, m.perMessage(before, reading{}, 100), "not known")
		assert.Zero(t, m.perMessage(before, m.read(), 0))
	})
}

func TestPercentileIsAnObservedValue(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 0, 7},
		{[]time.Duration{7}, 99, 7},
		{[]time.Duration{1, 2}, 50, 1},
		{[]time.Duration{1, 2}, 51, 2},
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 90, 90},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
		{hundred, 100, 100},
	} {
		assert.Equal(t, c.want, percentile(c.sorted, c.p), "p%v of %d values", c.p, len(c.sorted))
	}
}
