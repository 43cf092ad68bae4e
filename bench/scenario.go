package bench

import (
	"context"
	"time"
)

// A Scenario asks one question of a subject. Each has a file of its own.
type Scenario interface {
	// Name is how the scenario is selected and reported.
	Name() string
	// Question is what it answers, in a few words.
	Question() string
	// Setup says what was done, with its figures.
	Setup() string
	// Takes says whether the scenario makes sense for the subject.
	Takes(Subject) bool
	// Estimate guesses how long Run takes with the subject.
	Estimate(Subject) time.Duration
	// Run publishes through the session and returns what came of it. With an error, the run holds what
	// was seen until then.
	Run(context.Context, *Session) (Run, error)
}

// Load is what scenarios have in common.
type Load struct {
	Messages    int
	Rate        float64       // messages per second; 0 publishes as fast as confirmed
	Concurrency int           // workers, each with one unconfirmed message
	WarmUp      int           // messages before the measurement
	Patience    time.Duration // how long after the last arrival, or the last due time, a message is lost
}

// overhead guesses what opening, warming up and removing take.
const overhead = 3 * time.Second

func (l Load) settings(run Run) Run {
	run.Messages, run.Rate, run.Concurrency = l.Messages, l.Rate, l.Concurrency
	return run
}
