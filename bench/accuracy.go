package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Accuracy asks how late messages of mixed delays are, and what they cost: Messages of DelayMin to
// DelayMax, in whole Steps, at Rate or as fast as confirmed.
type Accuracy struct {
	Load
	DelayMin, DelayMax time.Duration
	Step               time.Duration // 1 s where 0: the resolution of every ladder there is
}

// Name is "accuracy".
func (Accuracy) Name() string { return "accuracy" }

// Question is what the scenario answers.
func (Accuracy) Question() string { return "how late, how fast, at what cost?" }

// Setup says what is published.
func (a Accuracy) Setup() string {
	return fmt.Sprintf("%s messages due after %s, %s, %d publishers",
		thousands(int64(a.Messages)), span(a.DelayMin, a.DelayMax), pace(a.Rate), a.Concurrency)
}

// Takes every subject; one that cannot delay is the floor of the publish rate and the broker's work.
func (Accuracy) Takes(Subject) bool { return true }

// Estimate is publishing, the longest delay, and about as long again as publishing for a subject that is
// saturated by it.
func (a Accuracy) Estimate(s Subject) time.Duration {
	longest := a.DelayMax
	if s.Undelayed {
		longest = 0
	}
	return overhead + 3*s.publishTime(a.Messages, a.Rate)/2 + longest
}

// Run publishes all and waits for all.
func (a Accuracy) Run(ctx context.Context, s *Session) (Run, error) {
	if err := s.warmUp(ctx, a.WarmUp, a.Concurrency, a.Patience); err != nil {
		return Run{}, err
	}
	err := s.publish(ctx, load{delays: a.delays(s), rate: a.Rate, workers: a.Concurrency})
	run, err := s.finish(ctx, a.Patience, nil, err)
	run = a.settings(run)
	run.DelayMinMS, run.DelayMaxMS = milliseconds(a.DelayMin), milliseconds(a.DelayMax)
	return run, err
}

// delays are the same for every subject: drawn at random, but from a fixed seed.
func (a Accuracy) delays(s *Session) []time.Duration {
	const seed1, seed2 = 2026, 11
	step := a.Step
	if step <= 0 {
		step = time.Second
	}
	random := rand.New(rand.NewPCG(seed1, seed2))
	steps := int64((a.DelayMax-a.DelayMin)/step) + 1
	out := make([]time.Duration, a.Messages)
	for i := range out {
		out[i] = s.delay(a.DelayMin + time.Duration(random.Int64N(steps))*step)
	}
	return out
}
