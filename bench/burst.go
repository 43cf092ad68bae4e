package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// Burst asks how long it takes until the last of many arrives that are all due in the same second.
//
// They are published over Spread, at an even rate, each with the delay in whole seconds that makes
// it due within the second that begins Lead after publishing should have ended: so each subject
// gets the same burst, whatever its resolution. DrainMS counts from when the last of them was due.
// A subject that takes longer to publish than Spread gets as long as its Pace says.
type Burst struct {
	Load                 // Rate is not used
	Spread time.Duration // over which all are published
	Lead   time.Duration // between the last publish and the burst, at least a second
}

// Name is "burst".
func (Burst) Name() string { return "burst" }

// Question is what the scenario answers.
func (Burst) Question() string { return "many due in the same second: how long until the last?" }

// Setup says what is published.
func (b Burst) Setup() string {
	return fmt.Sprintf("%s messages published over %v (longer where that is too fast), all due within the same second, %d publishers; drained: from when the last was due to the last arrival",
		format.Thousands(b.Messages), b.Spread, b.Concurrency)
}

// Takes every subject that delays. One that blocks is as good as any other here: those that were
// stored first are the first to be due.
func (Burst) Takes(s Subject) bool { return !s.Undelayed }

// Estimate is publishing, the lead, and some seconds for the burst itself.
func (b Burst) Estimate(s Subject) time.Duration {
	const burst = 3 * time.Second
	return overhead + warmUpDelay + b.span(s) + b.Lead + burst
}

// span is how long publishing may take: half as long again as is guessed, where that is more than
// Spread.
func (b Burst) span(s Subject) time.Duration {
	return max(b.Spread, 3*s.publishTime(b.Messages, 0)/2).Truncate(time.Second)
}

// Delays are whole seconds from the shortest to the longest that there may be.
func (b Burst) Delays(s Subject) []time.Duration {
	return every(time.Second, b.span(s)+b.Lead+time.Second, time.Second)
}

// Run publishes all and waits for all.
func (b Burst) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, b.Load); err != nil {
		return Run{}, err
	}
	due := s.recorder.now() + b.span(s.Subject) + b.Lead
	err := s.publish(ctx, load{
		delays: make([]time.Duration, b.Messages), workers: b.Concurrency,
		rate:    float64(b.Messages) / b.Spread.Seconds(),
		delayAt: func(now time.Duration) time.Duration { return untilBurst(now, due) },
	})
	run, err := s.finish(ctx, b.Patience, nil, err)
	run = b.settings(run)
	run.Rate, run.LatenessByStep = 0, nil
	run.DelayMinMS, run.DelayMaxMS = delayRange(run.Samples)
	run.DrainMS = drainMS(run.Samples)
	if err == nil {
		err = together(run.Samples, due)
	}
	return run, err
}

// untilBurst is the shortest delay in whole seconds, at least one, after which it is due or later:
// by less than a second, if there is a second left.
func untilBurst(now, due time.Duration) time.Duration {
	const unit = time.Second
	return max(unit, (due-now+unit-1)/unit*unit)
}

// together says whether all were due within a second.
func together(samples []Sample, due time.Duration) error {
	late := 0
	for _, m := range samples {
		late += one(m.Due() >= due+time.Second)
	}
	if late > 0 {
		return fmt.Errorf("publishing took too long: %s of %s were due after the burst (give fewer --messages)",
			format.Thousands(late), format.Thousands(len(samples)))
	}
	return nil
}

// drainMS is from when the last was due to the last arrival.
func drainMS(samples []Sample) float64 {
	var due, arrived time.Duration
	for _, m := range samples {
		if m.Copies > 0 {
			due, arrived = max(due, m.Due()), max(arrived, m.Arrived)
		}
	}
	return milliseconds(max(0, arrived-due))
}

// delayRange is the shortest and the longest delay in milliseconds.
func delayRange(samples []Sample) (shortest, longest float64) {
	for i, m := range samples {
		d := milliseconds(m.Delay)
		if i == 0 || d < shortest {
			shortest = d
		}
		longest = max(longest, d)
	}
	return shortest, longest
}
