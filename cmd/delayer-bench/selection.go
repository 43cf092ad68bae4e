package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/bench"
)

func (c *benchCmd) benchmark() (bench.Benchmark, error) {
	b := bench.Benchmark{
		Scenarios: c.Scenario, Repeat: c.Repeat, Messages: c.Messages, Rate: c.Rate, Concurrency: c.Concurrency, Body: c.Body,
		From: c.Delays.from, To: c.Delays.to, Delays: c.Delays.list,
		Receiving: bench.Receiving{Exchange: c.Destination == "exchange", Quorum: c.Consume == "quorum", Consumers: c.Consumers},
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

// check refuses invalid values, and flags that no chosen scenario uses.
func (c *benchCmd) check() error {
	const mostBody = 16 << 20  // RabbitMQ 4 takes no larger message
	const mostConsumers = 1000 // each has a channel; brokers allow 2047 on a connection
	only := func(names ...string) bool {
		return len(c.Scenario) > 0 &&
			!slices.ContainsFunc(c.Scenario, func(name string) bool { return !slices.Contains(names, name) })
	}
	switch {
	case c.Messages < 0:
		return fmt.Errorf("--messages: %d is negative", c.Messages)
	case c.Rate < 0:
		return fmt.Errorf("--rate: %g is negative (scenario cost publishes as fast as confirmed)", c.Rate)
	case c.Concurrency < 1:
		return fmt.Errorf("--concurrency: %d (at least 1)", c.Concurrency)
	case c.Consumers < 1 || c.Consumers > mostConsumers:
		return fmt.Errorf("--consumers: %d (1 to %d)", c.Consumers, mostConsumers)
	case c.Repeat < 1:
		return fmt.Errorf("--repeat: %d (at least 1)", c.Repeat)
	case c.Body < 0 || c.Body > mostBody:
		return fmt.Errorf("--body: %d (1 to %d bytes; leave it out for 64)", c.Body, mostBody)
	case c.Messages > 0 && only("rate"):
		return fmt.Errorf("--messages: scenario rate determines the number")
	case c.Rate > 0 && only("rate", "cost"):
		return fmt.Errorf("--rate: scenario %s has a pace of its own", strings.Join(c.Scenario, ", "))
	case (c.Delays.to > 0 || len(c.Delays.list) > 0) && len(c.Scenario) > 0 &&
		!slices.Contains(c.Scenario, "accuracy") && !slices.Contains(c.Scenario, "cost"):
		return fmt.Errorf("--delays: only scenarios accuracy and cost have them, and neither is chosen")
	}
	for _, steps := range c.Steps {
		first, _, _ := strings.Cut(steps, ",")
		tick, _ := time.ParseDuration(first) // 0, the default, for a name
		if _, err := binaryladder.Hops(binaryladder.Config{Steps: binaryladder.Steps(steps), Tick: tick}); err != nil {
			return fmt.Errorf("--steps: %w", err)
		}
	}
	for _, known := range []struct {
		flag          string
		values, known []string
	}{
		{"--queue-type", c.QueueType, []string{"quorum", "classic"}},
		{"--destination", []string{c.Destination}, []string{"queue", "exchange"}},
		{"--consume", []string{c.Consume}, []string{"classic", "quorum"}},
		{"--backend", c.Backend, subjectNames()},
		{"--scenario", c.Scenario, bench.Scenarios()},
	} {
		for _, value := range known.values {
			if !slices.Contains(known.known, value) {
				return fmt.Errorf("%s: unknown %q (known: %s)", known.flag, value, strings.Join(known.known, ", "))
			}
		}
	}
	return nil
}

// delays are a range in whole milliseconds, written "1s-15s", one delay, "5s", or a list,
// "1s,5s,1m".
type delays struct {
	from, to time.Duration
	list     []time.Duration // instead of the range
}

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
	switch {
	case isRange && values[0] > values[1]:
		return fmt.Errorf("%q: a range begins with the shorter delay", text)
	case isRange || len(values) == 1:
		*d = delays{from: values[0], to: values[len(values)-1]}
	default:
		*d = delays{list: values}
	}
	return nil
}
