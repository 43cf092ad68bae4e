package bench

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

// summarise turns raw samples into a run's figures. Lateness is over those that counted accepts;
// nil is all.
func summarise(samples []sample, counted func(sample) bool) result {
	chosen := samples
	if counted != nil {
		chosen = slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return !counted(s) })
	}
	run := result{samples: samples, Run: report.Run{
		Counts:      count(samples),
		PublishPerS: publishRate(chosen),
		Publish:     publishOf(chosen),
		Lateness:    latenessOf(chosen),
	}}
	run.faults(samples)
	return run
}

// faults notes by how much messages were early, and the first error.
func (r *result) faults(samples []sample) {
	for _, s := range samples {
		r.EarlyByMS = max(r.EarlyByMS, milliseconds(s.EarlyBy()))
		if s.Err != nil && r.Error == "" {
			r.Error = s.Err.Error()
		}
	}
}

func count(samples []sample) report.Counts {
	var c report.Counts
	for _, s := range samples {
		c.Published += one(s.Outcome == account.Confirmed)
		c.Delivered += one(s.Copies > 0)
		c.Lost += one(s.Missing())
		c.Duplicated += one(s.Copies > 1)
		c.Early += one(s.EarlyBy() > 0)
		c.Failed += one(s.Err != nil)
	}
	return c
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// latenessOf is all zeros if none of the samples arrived.
func latenessOf(samples []sample) report.Percentiles {
	var late []time.Duration
	for _, s := range samples {
		if s.Copies > 0 {
			late = append(late, s.Lateness())
		}
	}
	return percentiles(late)
}

// publishOf is how long Publish took, until the confirm; all zeros if none was confirmed.
func publishOf(samples []sample) report.Percentiles {
	var took []time.Duration
	for _, s := range samples {
		if s.Outcome == account.Confirmed {
			took = append(took, s.Answered-s.Asked)
		}
	}
	return percentiles(took)
}

func percentiles(of []time.Duration) report.Percentiles {
	slices.Sort(of)
	at := func(percent float64) float64 { return milliseconds(percentile(of, percent)) }
	return report.Percentiles{Min: at(0), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// percentile is the smallest of the sorted values that at least p per cent do not exceed; 0 of
// none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p * float64(len(sorted)) / 100)) // 99.9 / 100 is a little more than 0.999
	return sorted[max(rank, 1)-1]
}

// publishRate is the published messages per second, from the first intended Publish to the last
// return.
func publishRate(samples []sample) float64 {
	published := slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.Outcome != account.Confirmed })
	if len(published) == 0 {
		return 0
	}
	first := slices.MinFunc(published, func(a, b sample) int { return cmp.Compare(a.Intended, b.Intended) }).Intended
	last := slices.MaxFunc(published, func(a, b sample) int { return cmp.Compare(a.Answered, b.Answered) }).Answered
	if last <= first {
		return 0
	}
	return float64(len(published)) / (last - first).Seconds()
}

// milliseconds keeps three decimals: the clock's microseconds, without the noise of binary
// fractions.
func milliseconds(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }
