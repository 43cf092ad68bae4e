package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

// topRate, which is scenario rate, asks how many messages a second a subject carries in time: the
// highest steady rate at which 99 % are at most limit late. Each rate that it tries is one probe:
// published at that rate, by the clock, and waited for to the last message. The figures of a run
// are those of the best probe; its counts are of all.
type topRate struct {
	common                    // messages and rate are found out, not given
	length      time.Duration // how long to publish at each rate
	settle      time.Duration // the beginning of a probe that does not count
	limit       time.Duration // how late p99 may be
	first, most float64       // messages per second: where to begin, and to end
	budget      time.Duration // no probe begins after that
}

func (r topRate) about() report.Scenario {
	return report.Scenario{Name: "rate", Question: fmt.Sprintf("up to what rate are 99 %% at most %v late?", r.limit),
		Setup: fmt.Sprintf("rates from %s on, doubled and then bisected to %.0f %%, each for %v; messages due after %s, %d publishers; lateness at the highest rate that passed",
			paceOf(r.first), 100*(exact-1), r.length, span(r.due), r.concurrency)}
}

// takes no subject that blocks: with delays of different lengths all of its messages are late at
// any rate.
func (topRate) takes(s Subject) bool { return depth{}.takes(s) }

// exact ends a search: the lowest rate that failed is so much more than the highest that passed.
const exact = 1.05

// attempts at each rate: a disturbance, such as something else on the machine, can only make a
// probe fail.
const attempts = 2

func (r topRate) run(ctx context.Context, s *trial) (result, error) {
	if err := s.warmUp(ctx, r.common); err != nil {
		return result{}, err
	}
	var tried []report.Probe
	began := time.Now()
	_, err := search(r.first, r.most, func(rate float64) (passed bool, err error) {
		if time.Since(began) > r.budget {
			return false, errOverBudget
		}
		for attempt := 0; attempt < attempts && !passed && err == nil; attempt++ {
			var p report.Probe
			p, err = r.probe(ctx, s, rate)
			tried, passed = append(tried, p), p.Passed
		}
		return passed, err
	})
	if errors.Is(err, errOverBudget) {
		err = nil // what was found until then is less exact, and true
	}
	return r.summary(s, tried), err
}

var errOverBudget = errors.New("out of time")

func (r topRate) probe(ctx context.Context, s *trial, rate float64) (report.Probe, error) {
	first := s.recorder.plan(0)
	const seed = 13
	n := max(1, int(rate*r.length.Seconds()))
	err := s.publish(ctx, load{delays: drawn(n, r.due, seed), rate: rate, workers: r.concurrency})
	if ended := s.awaitAll(ctx, r.patience); err == nil {
		err = ended
	}
	return r.assess(rate, s.recorder.samplesOf(measured, first)), err
}

// assess says whether a probe passed, and if not, why: lateness counts from the schedule, so that a
// message that was published late is late, and the broker is only to blame for the rest.
func (r topRate) assess(rate float64, samples []sample) report.Probe {
	p := report.Probe{Rate: rate, PublishPerS: publishRate(samples)}
	settled := slices.DeleteFunc(slices.Clone(samples), func(m sample) bool {
		return m.Intended-samples[0].Intended < r.settle
	})
	p.Lateness = latenessOf(settled)
	c := count(samples)
	// RabbitMQ counts TTLs in milliseconds, so a baseline that relies on them alone is early by less
	// than one, at any rate. The report counts such messages; the rate is known all the same.
	early := func(m sample) bool { return m.EarlyBy() >= time.Millisecond }
	switch late := p.Lateness.P99 > milliseconds(r.limit); {
	case c.Lost+c.Duplicated+c.Failed > 0 || c.Delivered == 0 || slices.ContainsFunc(samples, early):
		p.Reason = "lost"
	case late && lag(settled) > r.limit/2:
		p.Reason = r.heldUp(samples, len(samples)-len(settled))
	case late:
		p.Reason = "late"
	}
	p.Passed = p.Reason == ""
	return p
}

// heldUp says why publishing fell behind after the beginning: nearly all publishers were waiting
// for confirms, or the benchmark itself could do no more. Only the time while there was something
// to publish counts. After that ever fewer of them have a confirm to wait for.
func (r topRate) heldUp(samples []sample, beginning int) (reason string) {
	from, to, waiting := samples[beginning].Asked, time.Duration(0), time.Duration(0)
	for _, m := range samples {
		to = max(to, m.Asked)
	}
	for _, m := range samples {
		waiting += max(0, min(m.Answered, to)-max(m.Asked, from))
	}
	if float64(waiting) >= 0.9*float64(r.concurrency)*float64(to-from) {
		return "confirms"
	}
	return "generator"
}

// lag is by how much publishing was behind its schedule, at p99.
func lag(samples []sample) time.Duration {
	behind := make([]time.Duration, len(samples))
	for i, m := range samples {
		behind[i] = m.Asked - m.Intended
	}
	slices.Sort(behind)
	return percentile(behind, 99)
}

// summary is the run: what the best probe found, and what became of all messages.
func (r topRate) summary(s *trial, tried []report.Probe) result {
	run := result{samples: s.recorder.samples()}
	run.Counts = count(run.samples)
	run.BrokerRSS, _ = s.meter.broker.RSS()
	run.Hops = s.hops(run.samples)
	r.settings(&run)
	for _, m := range run.samples {
		run.EarlyByMS = max(run.EarlyByMS, milliseconds(m.EarlyBy()))
	}
	run.Messages = run.Published + run.Failed
	run.Probes = tried
	for _, p := range tried {
		if p.Passed && p.Rate > run.MaxRate {
			run.MaxRate, run.Rate = p.Rate, p.Rate
			run.PublishPerS, run.Lateness = p.PublishPerS, p.Lateness
		}
	}
	return run
}

// search looks for the highest rate that passes, from a first one up to most: by doubling, or
// halving where the first fails, and then by bisection. It ends when the rates that pass and fail
// are close, out of probes, or when probe returns an error. It returns the highest that passed, or 0.
func search(first, most float64, probe func(rate float64) (passed bool, err error)) (best float64, err error) {
	const least, probes = 8, 24
	rate, failed := first, math.Inf(1)
	for range probes {
		passed, err := probe(rate)
		switch {
		case err != nil:
			return best, err
		case passed:
			best = rate
		default:
			failed = rate
		}
		switch {
		case best == 0:
			rate = failed / 2
		case math.IsInf(failed, 1):
			rate = min(2*best, most)
		default:
			rate = math.Sqrt(best * failed)
		}
		if rate < least || best == most || failed <= exact*best {
			break
		}
	}
	return best, nil
}
