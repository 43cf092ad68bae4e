package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// hops asks what each further hop of a ladder costs. Messages have delays with so many set bits in
// milliseconds, one number after another. Ladders have a tick of a millisecond, unless they were
// told another; with binary steps each set bit is then a hop.
type hops struct {
	common       // messages and rate of each number of hops
	bits   []int // 1 to 16
}

func (h hops) about() report.Scenario {
	each := make([]string, len(h.bits))
	for i, bits := range h.bits {
		each[i] = fmt.Sprintf("%d (%v)", bits, hopsDelay(bits))
	}
	return report.Scenario{Name: "hops", Question: "what does it cost that a delay has many set bits?",
		Setup: fmt.Sprintf("%s messages each of delays with so many set bits in milliseconds: %s; %s, %d publishers; ladders have a tick of 1ms where none was asked for",
			format.Thousands(h.messages), strings.Join(each, ", "), pace(h.rate), h.concurrency)}
}

// takes ladders alone: elsewhere the bits of a delay mean nothing, nor where a coarser tick rounds
// them away.
func (h hops) takes(s Subject) bool { return s.Ladder && s.Tick <= h.needs().tick }

// estimate is publishing and the delays, one after the other.
func (h hops) estimate(s Subject) time.Duration {
	sum := overhead
	for _, delay := range h.delays(s) {
		sum += s.publishTime(h.messages, h.rate) + delay
	}
	return sum
}

func (h hops) delays(Subject) []time.Duration {
	out := make([]time.Duration, len(h.bits))
	for i, bits := range h.bits {
		out[i] = hopsDelay(bits)
	}
	return out
}

func (hops) needs() needs { return needs{tick: time.Millisecond} }

// hopsDelay is the shortest delay of at least a second with so many set bits in milliseconds. While
// that is possible the delays are about the same, so that only the number of hops differs.
func hopsDelay(bits int) time.Duration {
	const about = 1 << 10
	lower := 1<<(bits-1) - 1
	if lower < about {
		return (about + time.Duration(lower)) * time.Millisecond
	}
	return (1<<bits - 1) * time.Millisecond
}

// run measures one number of hops after another. The figures of the run are those of all together.
func (h hops) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, h.common); err != nil {
		return result{}, err
	}
	var costs []report.HopCost
	var err error
	for _, bits := range h.bits {
		var cost report.HopCost
		if cost, err = h.measure(ctx, t, bits); err != nil {
			break
		}
		costs = append(costs, cost)
	}
	run, err := t.finish(ctx, h.common, nil, err)
	run.Messages = h.messages * len(h.bits)
	run.ByHops = costs
	// One after the other: most of the time nothing is published.
	run.PublishPerS, run.Rate = 0, 0
	return run, err
}

func (h hops) measure(ctx context.Context, t *trial, bits int) (report.HopCost, error) {
	delay := hopsDelay(bits)
	first, began := t.recorder.plan(0), t.meter.read()
	err := t.publish(ctx, load{
		delays: slices.Repeat([]time.Duration{delay}, h.messages), rate: h.rate, workers: h.concurrency,
	})
	meter := t.meter
	if err == nil {
		meter.idle, err = t.idleWhile(ctx, began, delay)
	}
	if err == nil {
		err = t.recorder.await(ctx, t.destination.done, h.patience)
	}
	ended := t.meter.read()
	samples := t.recorder.samplesOf(measured, first)
	return report.HopCost{
		Hops: bits, Queues: t.hops(samples), DelayMS: milliseconds(delay),
		BrokerCPU: meter.perMessage(began, ended, len(samples)), Lateness: latenessOf(samples),
	}, err
}

// idleWhile is what the broker uses while nothing happens. Over a delay of a minute that adds up to
// more than the hops themselves. So for a long delay it is measured anew, in the quiet first half:
// the first hop of a ladder is the longest.
func (t *trial) idleWhile(ctx context.Context, began reading, delay time.Duration) (float64, error) {
	const quiet, window = 2 * time.Second, 10 * time.Second
	left := delay/2 - time.Since(began.at) - 2*quiet
	if !began.ok || left < window {
		return t.meter.idle, nil
	}
	if err := pause(ctx, quiet); err != nil {
		return 0, err
	}
	from := t.meter.read()
	if err := pause(ctx, left); err != nil {
		return 0, err
	}
	to := t.meter.read()
	if !from.ok || !to.ok {
		return t.meter.idle, nil
	}
	return from.share(to), nil
}
