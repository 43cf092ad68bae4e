package bench

import (
	"context"
	"slices"
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
	// Delays are those that Run will ask the subject for, in any order: some must know them before.
	Delays(Subject) []time.Duration
	// Run publishes through the trial and returns what came of it. With an error, the run holds
	// what was seen until then.
	Run(context.Context, *Trial) (Run, error)
}

// Load is what scenarios have in common.
type Load struct {
	Messages    int
	Rate        float64       // messages per second; 0 publishes as fast as confirmed
	Concurrency int           // workers, each with one unconfirmed message
	WarmUp      int           // messages before the measurement
	Patience    time.Duration // how long after the last arrival, or the last due time, a message is lost
	Body        int           // bytes of each message's body; 64 where 0
}

// overhead guesses what opening, warming up and removing take.
const overhead = 3 * time.Second

func (l Load) settings(run Run) Run {
	run.Messages, run.Rate, run.Concurrency = l.Messages, l.Rate, l.Concurrency
	run.BodyBytes = l.body()
	return run
}

func (l Load) body() int {
	const usual = 64
	if l.Body == 0 {
		return usual
	}
	return l.Body
}

// needs are what a scenario asks of the benchmark beyond a trial. A scenario that has any
// implements needy.
type needs struct {
	// fresh: the broker is restarted before, where that can be done, because memory that it was
	// once given and has free again does not grow a second time.
	fresh bool
	// outage: the broker is killed or restarted under the trial; the scenario is left out where
	// that cannot be done.
	outage bool
	// tick is the resolution that the delays need, where that is finer than a second.
	tick time.Duration
}

type needy interface{ needs() needs }

func needsOf(s Scenario) needs {
	if n, ok := s.(needy); ok {
		return n.needs()
	}
	return needs{}
}

// every is the delays from one to another, in steps. Of more than can matter to anyone some are
// left out, but not the longest.
func every(from, to, step time.Duration) []time.Duration {
	const most = 1000
	var out []time.Duration
	for d := from; d < to && len(out) < most; d += step {
		out = append(out, d)
	}
	return append(out, to)
}

// distinct sorts the delays and drops repeated ones.
func distinct(delays []time.Duration) []time.Duration {
	slices.Sort(delays)
	return slices.Compact(delays)
}
