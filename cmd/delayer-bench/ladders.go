package main

import (
	"fmt"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
)

// A shape is a ladder that is measured: the default one, or one of --bits and --tick.
type shape struct {
	variant string
	routing string
	bits    int
	tick    time.Duration // 0: the default, or what the scenario needs
}

// shapes returns the ladders for these bits and ticks. Each pair gives one with routing source and,
// with one bit, one with routing topic. Without bits and ticks it returns the default ladder with
// both routings.
func shapes(bits []int, ticks []time.Duration) []shape {
	if len(bits)+len(ticks) == 0 {
		return []shape{
			{variant: "source", routing: "source", bits: backend.Default().BinaryLadder.BitsPerLevel},
			{variant: "topic", routing: "topic", bits: 1},
		}
	}
	if len(bits) == 0 {
		bits = []int{1}
	}
	if len(ticks) == 0 {
		ticks = []time.Duration{time.Second}
	}
	var out []shape
	for _, tick := range ticks {
		for _, b := range bits {
			out = append(out, shape{fmt.Sprintf("source %d bits %v", b, tick), "source", b, tick})
		}
	}
	for _, tick := range ticks {
		out = append(out, shape{fmt.Sprintf("topic %v", tick), "topic", 1, tick})
	}
	return out
}

// config returns the ladder's Config. wanted is the tick that the delays need, 0 for a second.
func (s shape) config(wanted time.Duration) binaryladder.Config {
	usual := backend.Default().BinaryLadder
	cfg := binaryladder.Config{Levels: usual.Levels, Tick: usual.Tick, Routing: binaryladder.Routing(s.routing), BitsPerLevel: s.bits}
	switch {
	case s.tick > 0:
		cfg.Tick = s.tick
	case wanted > 0 && wanted < cfg.Tick:
		cfg.Tick = wanted
	}
	if s.tick > 0 || cfg.Tick != usual.Tick || s.bits != usual.BitsPerLevel {
		cfg.Levels = levelsFor(cfg.BitsPerLevel, cfg.Tick)
	}
	return cfg
}

// reach is the least maximum delay of a measured ladder, if so many levels are allowed.
const reach = 12 * 24 * time.Hour

// levelsFor returns how many levels cover reach, at most as many as are allowed.
func levelsFor(bits int, tick time.Duration) int {
	const most = 28
	levels := 1
	for levels < most && time.Duration(1)<<(bits*levels) <= reach/tick {
		levels++
	}
	return levels
}

// prime returns delays that together use each link of the ladder that a delay up to longest can
// use: into each queue from outside, from each level to every queue below, and out of each level.
func (s shape) prime(longest, wanted time.Duration) []time.Duration {
	cfg := s.config(wanted)
	var out []time.Duration
	add := func(delay time.Duration) {
		if delay <= longest {
			out = append(out, delay)
		}
	}
	wait := func(level, value int) time.Duration {
		return time.Duration(value) << (cfg.BitsPerLevel * level) * cfg.Tick
	}
	for level := 0; level < cfg.Levels && wait(level, 1) <= longest; level++ {
		for value := 1; value < 1<<cfg.BitsPerLevel; value++ {
			add(wait(level, value))
			for above := level + 1; above < cfg.Levels && wait(above, 1) <= longest; above++ {
				add(wait(above, 1) + wait(level, value))
			}
		}
	}
	return out
}
