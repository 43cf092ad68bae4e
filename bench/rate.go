package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Rate asks how many messages a second a subject carries in time: the highest steady rate at which
// 99 % are at most Limit late. Each rate that it tries is one probe: published for Probe at that
// rate, by the clock, and waited for to the last message. The figures of a run are those of the
// best probe; its counts are of all.
type Rate struct {
	Load                             // Messages and Rate are found out, not given
	DelayMin, DelayMax time.Duration // in whole seconds
	Probe              time.Duration // how long to publish at each rate
	Settle             time.Duration // the beginning of a probe that does not count
	Limit              time.Duration // how late p99 may be
	First, Most        float64       // messages per second: where to begin, and to end
	Budget             time.Duration // no probe begins after that
}

// A Probe is one rate that was tried.
type Probe struct {
	Rate        float64  `json:"rate"`
	Passed      bool     `json:"passed"`
	Reason      string   `json:"reason,omitempty"` // why not: one of the constants below
	PublishPerS float64  `json:"publish_per_s"`    // confirmed
	Lateness    Lateness `json:"lateness_ms"`

	distribution []Quantile
}

// Why a probe fails.
const (
	TooLate     = "late"      // p99 was above the limit
	TooSlow     = "publisher" // publishing did not keep the rate: confirms came too slowly
	NotAllThere = "lost"      // messages were lost, doubled, early or failed to publish
)

// Name is "rate".
func (Rate) Name() string { return "rate" }

// Question is what the scenario answers.
func (r Rate) Question() string {
	return fmt.Sprintf("up to what rate are 99 %% at most %v late?", r.Limit)
}

// Setup says what is published.
func (r Rate) Setup() string {
	return fmt.Sprintf("rates from %s on, doubled and then bisected, each for %v; messages due after %s, %d publishers; lateness at the highest rate that passed",
		pace(r.First), r.Probe, span(r.DelayMin, r.DelayMax), r.Concurrency)
}

// Takes every subject that delays, but for those that block: with delays of different lengths all
// of their messages are late at any rate.
func (Rate) Takes(s Subject) bool { return !s.Undelayed && !s.Blocks }

// Delays are whole seconds.
func (r Rate) Delays(Subject) []time.Duration { return every(r.DelayMin, r.DelayMax, time.Second) }

// Estimate is about as many probes as it takes from the first rate to that of a fast broker.
func (r Rate) Estimate(Subject) time.Duration {
	const probes = 12
	return overhead + min(r.Budget, probes*(r.Probe+r.DelayMax+linger))
}

// attempts at each rate: what disturbs a probe of a few seconds, such as something else on the
// machine, can only make it fail.
const attempts = 2

// Run searches.
func (r Rate) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, r.Load); err != nil {
		return Run{}, err
	}
	const least, accuracy, probes = 8, 1.15, 16
	var tried []Probe
	began := time.Now()
	look := search{first: r.First, least: least, most: r.Most, accuracy: accuracy, probes: probes}
	_, err := look.run(func(rate float64) (bool, error) {
		if time.Since(began) > r.Budget {
			return false, errOverBudget
		}
		var probe Probe
		var err error
		for attempt := 0; attempt < attempts && !probe.Passed && err == nil; attempt++ {
			probe, err = r.probe(ctx, s, rate)
			tried = append(tried, probe)
		}
		return probe.Passed, err
	})
	if errors.Is(err, errOverBudget) {
		err = nil // what was found until then is less exact, and true
	}
	return r.summary(s, tried), err
}

var errOverBudget = errors.New("out of time")

// probe tries one rate.
func (r Rate) probe(ctx context.Context, s *Trial, rate float64) (Probe, error) {
	before := len(s.recorder.samples())
	n := max(1, int(rate*r.Probe.Seconds()))
	err := s.publish(ctx, load{delays: r.delays(n), rate: rate, workers: r.Concurrency})
	if ended := s.recorder.await(ctx, s.destination.done, r.Patience); err == nil {
		err = ended
	}
	if err == nil && s.destination.lost() {
		err = errConsumerLost
	}
	return r.assess(rate, s.recorder.samples()[before:]), err
}

// assess says whether a probe passed, and if not, why: lateness counts from the schedule, so that a
// message that was published late is late, and the broker is only to blame for the rest.
func (r Rate) assess(rate float64, samples []Sample) Probe {
	p := Probe{Rate: rate, PublishPerS: publishRate(samples)}
	settled := slices.DeleteFunc(slices.Clone(samples), func(m Sample) bool {
		return m.Intended-samples[0].Intended < r.Settle
	})
	p.Lateness = latenessOf(settled)
	p.distribution = distributionOf(settled)
	c := count(samples)
	switch late := p.Lateness.P99 > milliseconds(r.Limit); {
	case c.Lost+c.Duplicated+c.Early+c.Failed > 0 || c.Delivered == 0:
		p.Reason = NotAllThere
	case late && lag(settled) > r.Limit/2:
		p.Reason = TooSlow
	case late:
		p.Reason = TooLate
	}
	p.Passed = p.Reason == ""
	return p
}

// lag is by how much publishing was behind its schedule, at p99.
func lag(samples []Sample) time.Duration {
	behind := make([]time.Duration, len(samples))
	for i, m := range samples {
		behind[i] = m.Sent - m.Intended
	}
	slices.Sort(behind)
	return percentile(behind, 99)
}

// summary is the run: what the best probe found, and what became of all messages.
func (r Rate) summary(s *Trial, tried []Probe) Run {
	samples := s.recorder.samples()
	run := r.settings(Run{Counts: count(samples), BrokerRSS: s.meter.rss(), Probes: tried, Samples: samples})
	for _, m := range samples {
		run.EarlyByMS = max(run.EarlyByMS, milliseconds(m.EarlyBy()))
	}
	run.Messages = run.Published + run.Failed
	run.DelayMinMS, run.DelayMaxMS = milliseconds(r.DelayMin), milliseconds(r.DelayMax)
	for _, p := range tried {
		if p.Passed && p.Rate > run.MaxRate {
			run.MaxRate, run.Rate = p.Rate, p.Rate
			run.PublishPerS, run.Lateness, run.Distribution = p.PublishPerS, p.Lateness, p.distribution
		}
	}
	return run
}

// delays are drawn from a fixed seed, in whole seconds.
func (r Rate) delays(n int) []time.Duration {
	const seed1, seed2 = 2026, 13
	return drawn(n, r.DelayMin, r.DelayMax, time.Second, rand.NewPCG(seed1, seed2))
}
