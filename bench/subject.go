package bench

import (
	"context"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
)

// A Subject is a configuration that is measured.
type Subject struct {
	Backend   string // "binaryladder", "per-message-ttl", …
	Variant   string // "source", "topic"; "" where there is only one
	QueueType string // "classic" or "quorum": where messages wait

	// Baseline subjects are there to be compared with: what they lose or deliver early is reported
	// but does not fail the run.
	Baseline bool

	// Undelayed subjects deliver at once; scenarios ask them for a delay of 0, or leave them out.
	Undelayed bool

	// Ladder: a message waits in several queues in turn, by the steps of its delay.
	Ladder bool

	// Tick is the resolution of a ladder that was asked for; 0 takes what the scenario needs.
	Tick time.Duration

	// Blocks: a long delay blocks the short ones behind it. Scenarios that would show nothing else
	// leave the subject out.
	Blocks bool

	// Prime returns delays, none longer than longest, that between them take every step that a
	// message may take; nil where all steps are declared from the beginning. One message of each is
	// published before the warm-up, so that nothing is declared while measuring; it is not waited
	// for. tick is Env.Tick.
	Prime func(longest, tick time.Duration) []time.Duration

	// Pace is a rough guess of the messages per second it takes at saturation, for the time left
	// that progress shows. 0 means that publishing takes no time worth mentioning.
	Pace float64

	// Open declares what the subject needs, under env.Prefix, and opens it. If the Delayer is a
	// [Remover], that topology is removed after the run. An error that is [ErrSkip] says that this
	// broker lacks what the subject needs.
	Open func(ctx context.Context, env Env) (delayer.Delayer, error)
}

// Env is what a Subject is opened in.
type Env struct {
	URL         string
	Prefix      string // unique to this run; every broker object's name must begin with it
	Destination string // the queue that messages will be published to; it exists, and has no dots

	// Delays are all that there will be, sorted: what has tiers needs one for each.
	Delays []time.Duration
	// Tick is the resolution that the delays need; a subject that may choose its own takes this
	// one. 0: a second is fine enough.
	Tick time.Duration
	// Existing: the topology exists already, with messages in it. If opening fails, nothing may be
	// removed.
	Existing bool
}

// A Remover can remove what it declared in the broker.
type Remover interface {
	RemoveTopology(ctx context.Context) error
}

// Name is how the subject is called in tables: backend and variant.
func (s Subject) Name() string { return strings.TrimSpace(s.Backend + " " + s.Variant) }

// publishTime guesses how long n messages take to publish.
func (s Subject) publishTime(n int, rate float64) time.Duration {
	pace := s.Pace
	if pace == 0 || rate > 0 && rate < pace {
		pace = rate
	}
	if pace == 0 {
		return 0
	}
	return time.Duration(float64(n) / pace * float64(time.Second))
}
