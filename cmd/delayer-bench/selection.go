package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/bench"
)

func (c *benchCmd) benchmark() (bench.Benchmark, error) {
	b := bench.Benchmark{
		Scenarios: c.Scenario, Delays: c.Delays, Rate: c.Rate,
		Messages: int(c.Messages), Concurrency: int(c.Concurrency), Body: int(c.Body), Repeat: int(c.Repeat),
		Receiving: bench.Receiving{Exchange: c.Destination == "exchange", Quorum: c.Consume == "quorum", Consumers: int(c.Consumers)},
	}
	types := []string{"quorum", "classic"}
	switch {
	case c.Quick:
		b.Size, types = bench.Quick, types[:1]
	case c.Full:
		b.Size = bench.Full
	}
	if len(c.QueueType) > 0 {
		types = c.QueueType
	}
	if err := c.check(); err != nil {
		return b, err
	}
	whole := c.Full && len(c.Backend) == 0
	for i, queueType := range types {
		for _, candidate := range candidates(queueType, c.Steps) {
			selected := candidate.selected(c.Backend) || whole && candidate.Undelayed
			repeats := i > 0 && (candidate.exchange || candidate.Undelayed) // it waits in no queue
			if !selected || repeats {
				continue
			}
			if !whole {
				candidate.Scenarios = nil
			}
			b.Subjects = append(b.Subjects, candidate.Subject)
		}
	}
	return b, nil
}

// check refuses flags that no chosen scenario uses, rates below zero and steps of no ladder.
func (c *benchCmd) check() error {
	only := func(names ...string) bool {
		return len(c.Scenario) > 0 &&
			!slices.ContainsFunc(c.Scenario, func(name string) bool { return !slices.Contains(names, name) })
	}
	switch {
	case c.Rate < 0:
		return fmt.Errorf("--rate: %g is negative", c.Rate)
	case c.Messages > 0 && only("rate"):
		return errors.New("--messages: scenario rate determines the number")
	case c.Rate > 0 && only("rate", "cost"):
		return fmt.Errorf("--rate: scenario %s has a pace of its own", strings.Join(c.Scenario, ", "))
	case len(c.Delays) > 0 && only("hol", "rate", "backlog"):
		return errors.New("--delays: only scenarios accuracy and cost have them, and neither is chosen")
	}
	for _, steps := range c.Steps {
		first, _, _ := strings.Cut(steps, ",")
		tick, _ := time.ParseDuration(first) // 0, the default, for a name
		if _, err := binaryladder.Hops(binaryladder.Config{Steps: binaryladder.Steps(steps), Tick: tick}); err != nil {
			return fmt.Errorf("--steps: %w", err)
		}
	}
	return nil
}

// delays are written as a range, "1s-15s", or as a list, "1s,5s,1m".
type delays []time.Duration

func (d *delays) UnmarshalText(text []byte) error {
	from, to, isRange := strings.Cut(string(text), "-")
	parts := []string{from, to}
	if !isRange {
		parts = strings.Split(from, ",")
	}
	var values []time.Duration
	for _, part := range parts {
		value, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is no range of delays such as 1s-15s, and no list such as 1s,5s,1m", text)
		}
		if value < time.Millisecond || value%time.Millisecond != 0 {
			return fmt.Errorf("%q: delays are whole milliseconds, at least 1ms", text)
		}
		values = append(values, value)
	}
	if isRange {
		values = bench.Every(values[0], values[1])
	}
	if len(values) == 0 {
		return fmt.Errorf("%q: a range begins with the shorter delay", text)
	}
	*d = values
	return nil
}
