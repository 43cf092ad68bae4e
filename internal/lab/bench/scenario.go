package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// A scenario asks one question of a subject. Each has a file of its own.
type scenario interface {
	// about is the name, the question, and what is done.
	about() report.Scenario
	// takes says whether the scenario makes sense for the subject.
	takes(Subject) bool
	// delays are those that run asks the subject for, in any order: some must know them before.
	delays() []time.Duration
	// fresh says that the broker is restarted before each run, where that can be done: memory that
	// it was once given and has free again does not grow a second time.
	fresh() bool
	// run publishes through the trial. With an error, the result holds what was seen until then.
	run(context.Context, *trial) (result, error)
}

// A result is a run with the samples that it was made of, in publishing order.
type result struct {
	report.Run
	samples []sample
	skipped string // why the subject could not be measured on this broker, or ""
}

type common struct {
	messages    int
	rate        float64       // messages per second; 0 publishes as fast as confirmed
	concurrency int           // workers, each with one unconfirmed message
	warmUp      int           // messages before the measurement
	patience    time.Duration // a message is lost if nothing arrives for so long after the last due time
	bodySize    int           // bytes of each message's body; 64 where 0
}

func (common) takes(s Subject) bool { return !s.Undelayed }
func (common) fresh() bool          { return false }

func (c common) body() int {
	if c.bodySize == 0 {
		return 64
	}
	return c.bodySize
}

func (c common) settings(r *result) {
	r.Messages, r.Rate, r.Concurrency, r.BodyBytes = c.messages, c.rate, c.concurrency, c.body()
	for i, s := range r.samples {
		d := milliseconds(s.Delay)
		if i == 0 || d < r.DelayMinMS {
			r.DelayMinMS = d
		}
		r.DelayMaxMS = max(r.DelayMaxMS, d)
	}
}

// every is the delays from one to another, in steps. There are at most about 1000; the longest is
// always among them.
func every(from, to, step time.Duration) []time.Duration {
	var out []time.Duration
	for d := from; d < to && len(out) < 1000; d += step {
		out = append(out, d)
	}
	return append(out, to)
}

// drawn are n random delays between two, in steps, the same for every subject: the seed is fixed.
func drawn(n int, from, to, step time.Duration, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(2026, seed))
	steps := int64((to-from)/step) + 1
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = from + time.Duration(random.Int64N(steps))*step
	}
	return out
}

// tickOf is the resolution that the delays need: their greatest common divisor, at most a second.
func tickOf(delays []time.Duration) time.Duration {
	tick := time.Second
	for _, d := range delays {
		for d > 0 {
			tick, d = d, tick%d
		}
	}
	return tick
}

// span writes a range of delays: "1s–15s".
func span(from, to time.Duration) string {
	if from == to {
		return from.String()
	}
	return from.String() + "–" + to.String()
}

// paceOf writes a rate of publishing.
func paceOf(rate float64) string {
	if rate <= 0 {
		return "as fast as confirmed"
	}
	return format.Figure(rate) + "/s"
}
