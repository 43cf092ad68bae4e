package main

import (
	"fmt"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
)

// A shape is a ladder as it is measured: the default one, or one that --bits and --tick ask for.
type shape struct {
	variant string
	routing string
	bits    int
	tick    time.Duration // 0: the default, or what the scenario needs
}

// shapes are the ladders for these bits and ticks: of each two of them one with routing source,
// and, with one bit, one with routing topic. Without bits and ticks they are the default ladder and
// the same by topic.
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

// config is the ladder's, where the delays need the tick wanted, or 0 if a second will do.
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

// reach is what a ladder that is measured covers at least, if so many levels are allowed.
const reach = 12 * 24 * time.Hour

// levelsFor is how many levels cover reach, and at most as many as there may be.
func levelsFor(bits int, tick time.Duration) int {
	const most = 28
	levels := 1
	for levels < most && time.Duration(1)<<(bits*levels) <= reach/tick {
		levels++
	}
	return levels
}

// prime returns delays that take each step of the ladder that a delay up to longest can take: into
// each queue from outside, into each from every level above, and out of each level.
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
