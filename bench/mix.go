package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// Mix asks whether long delays block short ones where both come mixed: of every Every messages one
// waits Long, the others Short, in an order that is drawn from a fixed seed.
type Mix struct {
	Load
	Long, Short time.Duration
	Every       int
}

// Name is "hol-mix".
func (Mix) Name() string { return "hol-mix" }

// Question is what the scenario answers.
func (Mix) Question() string { return "long and short mixed: do the long block the short?" }

// Setup says what is published.
func (m Mix) Setup() string {
	return fmt.Sprintf("%s messages, %s, one in %d of %v, the others of %v, %d publishers (lateness of the short ones)",
		format.Thousands(m.Messages), pace(m.Rate), m.Every, m.Long, m.Short, m.Concurrency)
}

// Takes every subject that delays.
func (Mix) Takes(s Subject) bool { return !s.Undelayed }

// Estimate is publishing and the long delay.
func (m Mix) Estimate(s Subject) time.Duration {
	return overhead + warmUpDelay + s.publishTime(m.Messages, m.Rate) + m.Long
}

// Delays are the two.
func (m Mix) Delays(Subject) []time.Duration { return []time.Duration{m.Short, m.Long} }

// Run publishes all and waits for all.
func (m Mix) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, m.Load); err != nil {
		return Run{}, err
	}
	err := s.publish(ctx, load{delays: m.delays(), rate: m.Rate, workers: m.Concurrency})
	run, err := s.finish(ctx, m.Patience, func(message Sample) bool { return message.Delay == m.Short }, err)
	run = m.settings(run)
	run.DelayMinMS, run.DelayMaxMS = milliseconds(m.Short), milliseconds(m.Long)
	run.Points = pointsOf(run.Samples)
	// Waiting for the last long ones is most of the run: see HOL.
	run.BrokerCPU = 0
	run.PublishPerS = publishRate(run.Samples)
	return run, err
}

// delays begin with a long one, so that there is one to block however few there are.
func (m Mix) delays() []time.Duration {
	const seed1, seed2 = 2026, 17
	random := rand.New(rand.NewPCG(seed1, seed2))
	out := make([]time.Duration, m.Messages)
	for i := range out {
		out[i] = m.Short
		if i == 0 || random.IntN(max(1, m.Every)) == 0 {
			out[i] = m.Long
		}
	}
	return out
}
