package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
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
	if tick := tickOf(a.delays()); tick < time.Second {
		setup += fmt.Sprintf("; ladders have a tick of %v", tick)
	}
	return report.Scenario{Name: "accuracy", Question: "how late, at a steady rate?", Setup: setup}
}

func (a accuracy) delays() []time.Duration {
	if len(a.of) > 0 {
		return slices.Clone(a.of)
	}
	return every(a.from, a.to, a.step)
}

func (a accuracy) shortest() time.Duration { return slices.Min(a.delays()) }
func (a accuracy) longest() time.Duration  { return slices.Max(a.delays()) }

// takes a subject that cannot delay too: the floor of the publish rate and of the broker's work.
func (accuracy) takes(Subject) bool { return true }

func (a accuracy) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, a.common); err != nil {
		return result{}, err
	}
	const seed = 11
	delays := drawn(a.messages, a.from, a.to, a.step, seed)
	if len(a.of) > 0 {
		for i, n := range drawn(a.messages, 0, time.Duration(len(a.of)-1), 1, seed) {
			delays[i] = a.of[n]
		}
	}
	if t.subject.Undelayed {
		clear(delays)
	}
	err := t.publish(ctx, load{delays: delays, rate: a.rate, workers: a.concurrency})
	run, err := t.finish(ctx, a.common, nil, err)
	run.DelayMinMS, run.DelayMaxMS = milliseconds(a.shortest()), milliseconds(a.longest())
	return run, err
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
