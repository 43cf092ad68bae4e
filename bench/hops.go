package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// Hops asks what each further hop of a ladder costs. Messages have delays with so many set bits in
// milliseconds, one number after another; ladders are opened with a tick of a millisecond, where
// they are not told another, and so with binary steps each set bit is a hop.
type Hops struct {
	Load       // Messages and Rate of each number of hops
	Hops []int // 1 to 16
}

// Name is "hops".
func (Hops) Name() string { return "hops" }

// Question is what the scenario answers.
func (Hops) Question() string { return "what does it cost that a delay has many set bits?" }

// Setup says what is published.
func (h Hops) Setup() string {
	text := ""
	for i, hops := range h.Hops {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d (%v)", hops, hopsDelay(hops))
	}
	return fmt.Sprintf("%s messages each of delays with so many set bits in milliseconds: %s; %s, %d publishers; ladders have a tick of 1ms where none was asked for",
		format.Thousands(h.Messages), text, pace(h.Rate), h.Concurrency)
}

// Takes ladders: elsewhere the bits of a delay mean nothing. Nor do they where a coarser tick
// rounds them away.
func (h Hops) Takes(s Subject) bool { return s.Ladder && s.Tick <= h.needs().tick }

// Estimate is publishing and the delays, one after the other.
func (h Hops) Estimate(s Subject) time.Duration {
	sum := overhead
	for _, hops := range h.Hops {
		sum += s.publishTime(h.Messages, h.Rate) + hopsDelay(hops)
	}
	return sum
}

// Delays are one for each number of hops.
func (h Hops) Delays(Subject) []time.Duration {
	var out []time.Duration
	for _, hops := range h.Hops {
		out = append(out, hopsDelay(hops))
	}
	return out
}

func (Hops) needs() needs { return needs{tick: time.Millisecond} }

// hopsDelay is the shortest delay of at least a second with so many set bits in milliseconds: for
// as long as that is possible about the same one, so that only the number of hops differs.
func hopsDelay(hops int) time.Duration {
	const about = 1 << 10
	lower := 1<<(hops-1) - 1
	if lower < about {
		return (about + time.Duration(lower)) * time.Millisecond
	}
	return (1<<hops - 1) * time.Millisecond
}

// Run measures one number of hops after another. The figures of the run are those of all together.
func (h Hops) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, h.Load); err != nil {
		return Run{}, err
	}
	var costs []HopCost
	var err error
	for _, hops := range h.Hops {
		var cost HopCost
		if cost, err = h.measure(ctx, s, hops); err != nil {
			break
		}
		costs = append(costs, cost)
	}
	run, err := s.finish(ctx, h.Patience, nil, err)
	run = h.settings(run)
	run.Messages = h.Messages * len(h.Hops)
	run.ByHops = costs
	run.DelayMinMS, run.DelayMaxMS = delayRange(run.Samples)
	// One after the other: most of the time nothing is published.
	run.PublishPerS, run.Rate = 0, 0
	return run, err
}

func (h Hops) measure(ctx context.Context, s *Trial, hops int) (HopCost, error) {
	delay := hopsDelay(hops)
	before, began := len(s.recorder.samples()), s.meter.read()
	err := s.publish(ctx, load{
		delays: slices.Repeat([]time.Duration{delay}, h.Messages), rate: h.Rate, workers: h.Concurrency,
	})
	meter := s.meter
	if err == nil {
		meter.idle, err = s.idleWhile(ctx, began, delay)
	}
	if err == nil {
		err = s.recorder.await(ctx, s.destination.done, h.Patience)
	}
	ended := s.meter.read()
	samples := s.recorder.samples()[before:]
	return HopCost{
		Hops: hops, DelayMS: milliseconds(delay),
		BrokerCPU: meter.perMessage(began, ended, len(samples)), Lateness: latenessOf(samples),
	}, err
}

// idleWhile is what the broker uses while nothing happens. Over a delay of a minute that adds up to
// more than the hops themselves, so of a long one it is measured anew, in the quiet first half: the
// first hop of a ladder is the longest.
func (s *Trial) idleWhile(ctx context.Context, began reading, delay time.Duration) (float64, error) {
	const quiet, window = 2 * time.Second, 10 * time.Second
	left := delay/2 - time.Since(began.at) - 2*quiet
	if !began.ok || left < window {
		return s.meter.idle, nil
	}
	if err := pause(ctx, quiet); err != nil {
		return 0, err
	}
	from := s.meter.read()
	if err := pause(ctx, left); err != nil {
		return 0, err
	}
	to := s.meter.read()
	if !from.ok || !to.ok {
		return s.meter.idle, nil
	}
	return (to.cpu - from.cpu).Seconds() / to.at.Sub(from.at).Seconds(), nil
}
