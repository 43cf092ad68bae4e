package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
	due         []time.Duration // delays, each as often as the others
	messages    int
	rate        float64       // messages per second; 0 publishes as fast as confirmed
	concurrency int           // workers, each with one unconfirmed message
	warmUp      int           // messages before the measurement
	patience    time.Duration // a message is lost if nothing arrives for so long after the last due time
	bodySize    int           // bytes of each message's body; 64 where 0
}

func (common) takes(s Subject) bool      { return !s.Undelayed }
func (common) fresh() bool               { return false }
func (c common) delays() []time.Duration { return c.due }

func (c common) body() int {
	if c.bodySize == 0 {
		return 64
	}
	return c.bodySize
}

func (c common) settings(r *result) {
	r.Messages, r.Rate, r.Concurrency, r.BodyBytes = c.messages, c.rate, c.concurrency, c.body()
	r.DelayMinMS, r.DelayMaxMS = milliseconds(slices.Min(c.due)), milliseconds(slices.Max(c.due))
}

// Every lists the delays of a range: each second, or each millisecond where an end is no whole
// second.
func Every(from, to time.Duration) []time.Duration {
	step := time.Second
	if from%step != 0 || to%step != 0 {
		step = time.Millisecond
	}
	var out []time.Duration
	for d := from; d <= to; d += step {
		out = append(out, d)
	}
	return out
}

// drawn are n random delays of a list, the same for every subject: the seed is fixed.
func drawn(n int, of []time.Duration, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(2026, seed))
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = of[random.IntN(len(of))]
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

// span writes delays: "15 delays of 1s–15s".
func span(due []time.Duration) string {
	if len(due) == 1 {
		return due[0].String()
	}
	return fmt.Sprintf("%d delays of %v–%v", len(due), slices.Min(due), slices.Max(due))
}

// paceOf writes a rate of publishing.
func paceOf(rate float64) string {
	if rate <= 0 {
		return "as fast as confirmed"
	}
	return format.Figure(rate) + "/s"
}
