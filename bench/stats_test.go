package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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

// at is a sample published in time and arriving so much later than due.
func at(delay, late time.Duration) Sample {
	const sent = time.Second
	return Sample{Delay: delay, Intended: sent, Sent: sent, Returned: sent, Arrived: sent + delay + late, Copies: 1}
}

func TestCountsAreById(t *testing.T) {
	twice := at(time.Second, 0)
	twice.Copies = 3
	lost := Sample{Delay: time.Second, Intended: 1, Sent: 1, Returned: 2}
	failed := lost
	failed.Err = errors.New("refused")
	unknown := at(time.Second, 0) // Publish did not know, but it arrived
	unknown.Err = errors.New("connection lost")
	neverSent := Sample{Delay: time.Second}

	got := count([]Sample{at(time.Second, 0), at(time.Second, -1), twice, lost, failed, unknown, neverSent})
	assert.Equal(t, Counts{Published: 4, Delivered: 4, Lost: 1, Duplicated: 1, Early: 1, Failed: 2}, got)
}

func TestEarlyIsJudgedFromTheActualPublish(t *testing.T) {
	s := Sample{Delay: time.Second, Intended: 1 * time.Second, Sent: 3 * time.Second, Copies: 1}
	s.Arrived = 4*time.Second - 1
	assert.True(t, s.Early(), "a delay cut short must not hide behind a late publish")
	assert.Equal(t, 2*time.Second-1, s.Lateness(), "lateness counts from the schedule")
	s.Arrived++
	assert.False(t, s.Early(), "exactly on time is not early")
}

func TestLatenessByDelayIsSortedAndCountsArrivals(t *testing.T) {
	lost := Sample{Delay: time.Second, Sent: 1}
	got := latenessByDelay([]Sample{at(10*time.Second, 5*time.Millisecond), at(2*time.Second, time.Millisecond), lost})
	assert.Equal(t, []DelayLateness{
		{2000, 1, Lateness{1, 1, 1, 1, 1}},
		{10000, 1, Lateness{5, 5, 5, 5, 5}},
	}, got)
}

func TestPublishRateIsFromTheFirstIntentionToTheLastConfirm(t *testing.T) {
	var samples []Sample
	for i := range 10 {
		begin := time.Duration(i) * 100 * time.Millisecond
		samples = append(samples, Sample{Intended: begin, Sent: begin + 1, Returned: begin + 100*time.Millisecond})
	}
	assert.InDelta(t, 10, publishRate(samples), 0.001)
	assert.Zero(t, publishRate(nil))
}
