package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
)

// A shape is a ladder that is measured: the default one, or one of --steps and --tick.
type shape struct {
	variant string
	routing binaryladder.Routing
	steps   binaryladder.Steps
	tick    time.Duration // 0: the default, or what the scenario needs
}

// shapes returns the ladders for these steps and ticks. Each pair gives one with routing source,
// and each tick one with routing topic. Without steps and ticks it returns the default ladder with
// both routings.
func shapes(steps []string, ticks []time.Duration) []shape {
	def := backend.Default().BinaryLadder
	if len(steps)+len(ticks) == 0 {
		return []shape{
			{variant: "source", routing: binaryladder.Source, steps: def.Steps},
			{variant: "topic", routing: binaryladder.Topic, steps: binaryladder.Binary},
		}
	}
	if len(steps) == 0 {
		steps = []string{string(def.Steps)}
	}
	if len(ticks) == 0 {
		ticks = []time.Duration{def.Tick}
	}
	var out []shape
	for _, tick := range ticks {
		for _, s := range steps {
			out = append(out, shape{fmt.Sprintf("source %s %v", stepsName(s), tick), binaryladder.Source, binaryladder.Steps(s), tick})
		}
	}
	for _, tick := range ticks {
		out = append(out, shape{fmt.Sprintf("topic %v", tick), binaryladder.Topic, binaryladder.Binary, tick})
	}
	return out
}

// about says what the ladder is.
func (s shape) about() string {
	if s.routing == binaryladder.Topic {
		return "a ladder: a TTL queue for each bit of a delay; topic exchanges compare the bits in the routing key"
	}
	return "a ladder: a TTL queue for each step of a delay; a message carries its way as routing keys"
}

// stepsName shortens a list for tables.
func stepsName(steps string) string {
	if n := strings.Count(steps, ","); n > 0 {
		first, _, _ := strings.Cut(steps, ",")
		return fmt.Sprintf("%s+%d", first, n)
	}
	return steps
}

// config returns the ladder's Config. wanted is the tick that the delays need, 0 for a second.
func (s shape) config(wanted time.Duration) binaryladder.Config {
	cfg := binaryladder.Config{Tick: backend.Default().BinaryLadder.Tick, Routing: s.routing, Steps: s.steps}
	switch {
	case s.tick > 0:
		cfg.Tick = s.tick
	case wanted > 0 && wanted < cfg.Tick:
		cfg.Tick = wanted
	}
	return cfg
}

// prime returns those delays that together use each link of the ladder that any of them uses:
// between two steps, into the ladder and out of it. delays are sorted, and so is what it returns:
// from the longest down, since long ones take more links.
func (s shape) prime(delays []time.Duration, wanted time.Duration) []time.Duration {
	const outside = time.Duration(0)
	plans, err := binaryladder.Hops(s.config(wanted), delays...)
	if err != nil {
		return nil // Open says why
	}
	used := map[[2]time.Duration]bool{}
	var out []time.Duration
	for i, plan := range slices.Backward(plans) {
		from, known := outside, len(used)
		for _, to := range append(plan, outside) {
			used[[2]time.Duration{from, to}] = true
			from = to
		}
		if len(used) > known {
			out = append(out, delays[i])
		}
	}
	return out
}

// hops counts the steps of each delay.
func (s shape) hops(wanted time.Duration, delays ...time.Duration) []int {
	plans, err := binaryladder.Hops(s.config(wanted), delays...)
	if err != nil {
		return nil // Open says why
	}
	out := make([]int, len(plans))
	for i, plan := range plans {
		out[i] = len(plan)
	}
	return out
}
