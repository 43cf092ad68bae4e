package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// Accuracy asks how late messages of mixed delays are, and what they cost: Messages of DelayMin to
// DelayMax, in whole Steps, at Rate or as fast as confirmed.
type Accuracy struct {
	Load
	DelayMin, DelayMax time.Duration
	Step               time.Duration   // 1 s where 0: the resolution of every ladder there is
	Of                 []time.Duration // where there are any: these delays, each as often as the others
}

// Name is "accuracy".
func (Accuracy) Name() string { return "accuracy" }

// Question is what the scenario answers.
func (Accuracy) Question() string { return "how late, how fast, at what cost?" }

// Setup says what is published.
func (a Accuracy) Setup() string {
	after := span(a.shortest(), a.longest())
	if len(a.Of) > 0 {
		after = fmt.Sprintf("%d delays of %s", len(a.Of), after)
	}
	setup := fmt.Sprintf("%s messages due after %s, %s, %d publishers",
		format.Thousands(a.Messages), after, pace(a.Rate), a.Concurrency)
	if tick := a.needs().tick; tick > 0 {
		setup += fmt.Sprintf("; ladders have a tick of %v where none was asked for", tick)
	}
	return setup
}

func (a Accuracy) shortest() time.Duration {
	if len(a.Of) > 0 {
		return slices.Min(a.Of)
	}
	return a.DelayMin
}

func (a Accuracy) longest() time.Duration {
	if len(a.Of) > 0 {
		return slices.Max(a.Of)
	}
	return a.DelayMax
}

func (a Accuracy) step() time.Duration {
	if a.Step > 0 {
		return a.Step
	}
	return time.Second
}

// needs a finer tick where there are delays between two seconds.
func (a Accuracy) needs() needs {
	fraction := func(d time.Duration) bool { return d%time.Second != 0 }
	if slices.ContainsFunc(a.Of, fraction) || len(a.Of) == 0 && (fraction(a.step()) || fraction(a.DelayMin)) {
		return needs{tick: time.Millisecond}
	}
	return needs{}
}

// Delays are the steps, or the list.
func (a Accuracy) Delays(Subject) []time.Duration {
	if len(a.Of) > 0 {
		return slices.Clone(a.Of)
	}
	return every(a.DelayMin, a.DelayMax, a.step())
}

// Takes every subject; one that cannot delay is the floor of the publish rate and the broker's
// work.
func (Accuracy) Takes(Subject) bool { return true }

// Estimate is publishing, the longest delay, and about as long again as publishing for a subject
// that is saturated by it.
func (a Accuracy) Estimate(s Subject) time.Duration {
	longest := a.longest()
	if s.Undelayed {
		longest = 0
	}
	return overhead + 3*s.publishTime(a.Messages, a.Rate)/2 + longest
}

// Run publishes all and waits for all.
func (a Accuracy) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, a.Load); err != nil {
		return Run{}, err
	}
	err := s.publish(ctx, load{delays: a.delays(s), rate: a.Rate, workers: a.Concurrency})
	run, err := s.finish(ctx, a.Patience, nil, err)
	run = a.settings(run)
	run.DelayMinMS, run.DelayMaxMS = milliseconds(a.shortest()), milliseconds(a.longest())
	return run, err
}

// delays are the same for every subject: drawn at random, but from a fixed seed.
func (a Accuracy) delays(s *Trial) []time.Duration {
	const seed1, seed2 = 2026, 11
	source := rand.NewPCG(seed1, seed2)
	var out []time.Duration
	if len(a.Of) > 0 {
		out = picked(a.Messages, a.Of, source)
	} else {
		out = drawn(a.Messages, a.DelayMin, a.DelayMax, a.step(), source)
	}
	for i := range out {
		out[i] = s.delay(out[i])
	}
	return out
}

// picked are n delays of a list.
func picked(n int, list []time.Duration, source rand.Source) []time.Duration {
	random := rand.New(source)
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = list[random.IntN(len(list))]
	}
	return out
}

// drawn are n delays between two, in steps.
func drawn(n int, from, to, step time.Duration, source rand.Source) []time.Duration {
	random := rand.New(source)
	steps := int64((to-from)/step) + 1
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = from + time.Duration(random.Int64N(steps))*step
	}
	return out
}
