package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lab/account"
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
func at(delay, late time.Duration) sample {
	const sent = time.Second
	return sample{Delay: delay, Intended: sent, Asked: sent, Answered: sent, Outcome: account.Confirmed, Arrived: sent + delay + late, Copies: 1}
}

func TestCountsAreById(t *testing.T) {
	twice := at(time.Second, 0)
	twice.Copies = 3
	lost := sample{Delay: time.Second, Intended: 1, Asked: 1, Answered: 2, Outcome: account.Confirmed}
	failed := lost
	failed.Err, failed.Outcome = errors.New("refused"), account.Refused
	unknown := at(time.Second, 0) // Publish did not know, but it arrived
	unknown.Err, unknown.Outcome = errors.New("connection lost"), account.Unknown
	neverSent := sample{Delay: time.Second}

	got := count([]sample{at(time.Second, 0), at(time.Second, -1), twice, lost, failed, unknown, neverSent})
	assert.Equal(t, report.Counts{Published: 4, Delivered: 4, Lost: 1, Duplicated: 1, Early: 1, Failed: 2}, got)
}

func TestPublishRateIsFromTheFirstIntentionToTheLastConfirm(t *testing.T) {
	var samples []sample
	for i := range 10 {
		begin := time.Duration(i) * 100 * time.Millisecond
		samples = append(samples, sample{Intended: begin, Asked: begin + 1, Answered: begin + 100*time.Millisecond, Outcome: account.Confirmed})
	}
	assert.InDelta(t, 10, publishRate(samples), 0.001)
	assert.Zero(t, publishRate(nil))
}
