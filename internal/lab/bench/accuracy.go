package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// accuracy asks how late messages of mixed delays are at a steady rate. It is an open loop: a
// message is late from when it should have been published, whatever became of those before it.
type accuracy struct{ common }

func (a accuracy) about() report.Scenario {
	setup := fmt.Sprintf("%s messages due after %s, %s, %d publishers",
		format.Thousands(a.messages), span(a.due), paceOf(a.rate), a.concurrency)
	if tick := tickOf(a.due); tick < time.Second {
		setup += fmt.Sprintf("; ladders have a tick of %v", tick)
	}
	return report.Scenario{Name: "accuracy", Question: "how late, at a steady rate?", Setup: setup}
}

// takes a subject that cannot delay too: the floor of the publish rate and of the broker's work.
func (accuracy) takes(Subject) bool { return true }

func (a accuracy) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, a.common); err != nil {
		return result{}, err
	}
	const seed = 11
	delays := drawn(a.messages, a.due, seed)
	if t.subject.Undelayed {
		clear(delays)
	}
	err := t.publish(ctx, load{delays: delays, rate: a.rate, workers: a.concurrency})
	return t.finish(ctx, a.common, nil, err)
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
