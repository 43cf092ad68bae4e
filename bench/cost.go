package bench

import "github.com/delayer-go/delayer/bench/report"

// cost publishes messages of mixed delays as fast as they are confirmed, and asks how fast that is
// and what a message costs. It is a closed loop: a slow subject is asked for less, so it tells
// nothing of lateness.
type cost struct{ accuracy }

func (c cost) about() report.Scenario {
	s := c.accuracy.about()
	s.Name, s.Question = "cost", "how fast, and at what cost?"
	return s
}
