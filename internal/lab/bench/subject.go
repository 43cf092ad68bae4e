package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

// A Subject is a configuration that is measured. Backend, QueueType and Open are required.
type Subject struct {
	Backend   string // "binaryladder", "per-message-ttl", …
	Variant   string // "source", "topic"; "" if there is only one
	QueueType string // "classic" or "quorum": where messages wait
	About     string // what it does, in a few words, for the report

	// Open declares what the subject needs, under env.Prefix, and opens it. If the error matches
	// [ErrSkip], this broker lacks what the subject needs.
	Open func(ctx context.Context, env Env) (delayer.Delayer, error)
	// Remove deletes what Open has declared, with the messages in it, once the Delayer is closed.
	// nil: Open declares nothing.
	Remove func(ctx context.Context, env Env) error

	// Baseline subjects are measured for comparison: what they lose or deliver early is reported,
	// but does not fail the run.
	Baseline bool
	// Undelayed subjects deliver at once. Only scenario accuracy takes them, with a delay of 0.
	Undelayed bool
	// Blocks says that a long delay blocks the short ones behind it. Scenarios that would show only
	// that do not take the subject.
	Blocks bool
	// Scenarios are those that it is measured in; nil is all.
	Scenarios []string

	// Lazy subjects declare what a delay needs when it is first asked for. One message of each delay
	// is published before the warm-up, so that nothing is declared while measuring. What it costs
	// the broker later would count as that of the messages: so many are waited for, and few are not.
	Lazy bool

	// Hops is how many queues a message waits in, one after the other, with each of the delays;
	// tick is Env.Tick. nil: not known before.
	Hops func(tick time.Duration, delays ...time.Duration) []int
	// Moves says that the subject calls Env.Moved.
	Moves bool
}

// Env is what a Subject is opened in.
type Env struct {
	URL         string
	Prefix      string // unique to this run; every broker object's name must begin with it
	Destination string // the queue that messages will be published to; it exists, and has no dots

	// Delays are the delays of the run, sorted: a backend with tiers needs a tier for each. Of very
	// many, some are left out.
	Delays []time.Duration
	// Tick is the resolution that the delays need, at most a second.
	Tick time.Duration
	// Moved is to be called for each message that goes on from one queue to another to wait there.
	Moved func()
}

// ErrSkip is in the chain of the error that Subject.Open returns if this broker lacks what the
// subject needs. The subject is then skipped, and the report says why.
var ErrSkip = errors.New("skipped")

// Name is what --backend calls the subject: backend and variant.
func (s Subject) Name() string { return s.run().Subject() }

func (s Subject) run() report.Run { return report.Run{Backend: s.Backend, Variant: s.Variant} }

// in says whether the subject is measured in a scenario.
func (s Subject) in(scenario string) bool {
	return s.Scenarios == nil || slices.Contains(s.Scenarios, scenario)
}
