package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// accuracy asks how late messages of mixed delays are at a steady rate. It is an open loop: a
// message is late from when it should have been published, whatever became of those before it.
type accuracy struct {
	common
	from, to time.Duration   // delays
	step     time.Duration   // between two delays
	of       []time.Duration // if not empty: these delays instead, each as often as the others
}

func (a accuracy) about() report.Scenario {
	due := span(a.shortest(), a.longest())
	if len(a.of) > 0 {
		due = fmt.Sprintf("%d delays of %s", len(a.of), due)
	}
	setup := fmt.Sprintf("%s messages due after %s, %s, %d publishers",
		format.Thousands(a.messages), due, paceOf(a.rate), a.concurrency)
	if tick := a.needs().tick; tick > 0 {
		setup += fmt.Sprintf("; ladders have a tick of %v where none was asked for", tick)
	}
	return report.Scenario{Name: "accuracy", Question: "how late, at a steady rate?", Setup: setup}
}

func (a accuracy) delays(Subject) []time.Duration {
	if len(a.of) > 0 {
		return slices.Clone(a.of)
	}
	return every(a.from, a.to, a.step)
}

func (a accuracy) shortest() time.Duration { return slices.Min(a.delays(Subject{})) }
func (a accuracy) longest() time.Duration  { return slices.Max(a.delays(Subject{})) }

// needs a finer tick if there are delays between two seconds.
func (a accuracy) needs() needs {
	if slices.ContainsFunc(a.delays(Subject{}), func(d time.Duration) bool { return d%time.Second != 0 }) {
		return needs{tick: time.Millisecond}
	}
	return needs{}
}

// takes a subject that cannot delay too: the floor of the publish rate and of the broker's work.
func (accuracy) takes(Subject) bool { return true }

// estimate is publishing, the longest delay, and half as long again as publishing for a subject
// that the load saturates.
func (a accuracy) estimate(s Subject) time.Duration {
	longest := a.longest()
	if s.Undelayed {
		longest = 0
	}
	return overhead + 3*s.publishTime(a.messages, a.rate)/2 + longest
}

func (a accuracy) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, a.common); err != nil {
		return result{}, err
	}
	err := t.publish(ctx, load{delays: a.mixed(t), rate: a.rate, workers: a.concurrency})
	run, err := t.finish(ctx, a.common, nil, err)
	run.DelayMinMS, run.DelayMaxMS = milliseconds(a.shortest()), milliseconds(a.longest())
	return run, err
}

// mixed are the delays of the messages.
func (a accuracy) mixed(t *trial) []time.Duration {
	const seed = 11
	out := drawn(a.messages, a.from, a.to, a.step, seed)
	if len(a.of) > 0 {
		for i, n := range drawn(a.messages, 0, time.Duration(len(a.of)-1), 1, seed) {
			out[i] = a.of[n]
		}
	}
	for i := range out {
		out[i] = t.delay(out[i])
	}
	return out
}

// cost publishes messages of mixed delays as fast as they are confirmed, and asks how fast that is
// and what a message costs. It is a closed loop: a slow subject is asked for less, so it tells
// nothing of lateness.
type cost struct{ accuracy }

func (c cost) about() report.Scenario {
	s := c.accuracy.about()
	s.Name, s.Question = "cost", "how fast, and at what cost?"
	return s
}
