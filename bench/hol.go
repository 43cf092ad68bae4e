package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// HOL asks whether a long delay blocks the short ones behind it (head-of-line blocking): one
// message of Long is stored first, then Messages of Short follow.
type HOL struct {
	Load
	Long, Short time.Duration
}

// Name is "hol".
func (HOL) Name() string { return "hol" }

// Question is what the scenario answers.
func (HOL) Question() string { return "does a long delay block the short ones behind it?" }

// Setup says what is published.
func (h HOL) Setup() string {
	return fmt.Sprintf("one message of %s, then %s of %s, %s, %d publishers (lateness of the short ones)",
		h.Long, format.Thousands(h.Messages), h.Short, pace(h.Rate), h.Concurrency)
}

// Delays are the two.
func (h HOL) Delays(Subject) []time.Duration { return []time.Duration{h.Short, h.Long} }

// Takes every subject that delays.
func (HOL) Takes(s Subject) bool { return !s.Undelayed }

// Estimate is the long delay, which everything else fits into.
func (h HOL) Estimate(s Subject) time.Duration {
	return overhead + max(h.Long, s.publishTime(h.Messages, h.Rate)+h.Short)
}

// Run stores the long message, then publishes the short ones, and waits for all.
func (h HOL) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, h.Load); err != nil {
		return Run{}, err
	}
	err := s.publish(ctx, load{delays: []time.Duration{h.Long}, workers: 1})
	if err == nil {
		short := slices.Repeat([]time.Duration{h.Short}, h.Messages)
		err = s.publish(ctx, load{delays: short, rate: h.Rate, workers: h.Concurrency})
	}
	run, err := s.finish(ctx, h.Patience, func(m Sample) bool { return m.Delay == h.Short }, err)
	run = h.settings(run)
	run.DelayMinMS, run.DelayMaxMS = milliseconds(h.Short), milliseconds(h.Long)
	run.Points = pointsOf(run.Samples)
	// Most of the run is waiting for one message: what the broker used meanwhile says nothing about
	// the cost of a message.
	run.BrokerCPU = 0
	return run, err
}
