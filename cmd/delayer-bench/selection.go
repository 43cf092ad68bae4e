package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/baseline"
)

// A selection holds the scenarios and subjects of a command line.
type selection struct {
	scenarios []bench.Scenario
	subjects  []bench.Subject
	leaves    func(bench.Scenario, bench.Subject) bool // nil: nothing
}

func (c *benchCmd) selection() (selection, error) {
	if err := c.check(); err != nil {
		return selection{}, err
	}
	s := c.sizes()
	scenarios, err := c.scenarios(s)
	if err != nil {
		return selection{}, err
	}
	subjects, err := selectSubjects(c.Backend, s.queueTypes, shapes(c.Steps, c.Tick))
	out := selection{scenarios: scenarios, subjects: subjects}
	if c.Full && len(c.Backend) == 0 {
		out.leaves = leave(s.queueTypes[0])
	}
	return out, err
}

// estimate guesses how long all runs take together.
func (s selection) estimate(repeat int) time.Duration {
	var sum time.Duration
	for _, scenario := range s.scenarios {
		for _, subject := range s.subjects {
			if scenario.Takes(subject) && (s.leaves == nil || !s.leaves(scenario, subject)) {
				sum += scenario.Estimate(subject)
			}
		}
	}
	return sum * time.Duration(repeat)
}

// sizes returns the defaults of the chosen run, with the flags applied.
func (c *benchCmd) sizes() sizes {
	s := usual
	switch {
	case c.Quick:
		s = quick
	case c.Full:
		s = full
	}
	if len(c.QueueType) > 0 {
		s.queueTypes = c.QueueType
	}
	if c.Delays.given() {
		s.delays = c.Delays
	}
	return s
}

// check refuses invalid numbers.
func (c *benchCmd) check() error {
	const mostBody = 16 << 20 // RabbitMQ 4 takes no larger message
	switch {
	case c.Messages < 0:
		return fmt.Errorf("--messages: %d is negative", c.Messages)
	case c.Rate < 0:
		return fmt.Errorf("--rate: %g is negative (leave it out to publish as fast as confirmed)", c.Rate)
	case c.Concurrency < 1:
		return fmt.Errorf("--concurrency: %d (at least 1)", c.Concurrency)
	case c.Repeat < 1:
		return fmt.Errorf("--repeat: %d (at least 1)", c.Repeat)
	case c.Body < 0 || c.Body > mostBody:
		return fmt.Errorf("--body: %d (1 to %d bytes; leave it out for 64)", c.Body, mostBody)
	case c.Step < 0 || c.Step%time.Millisecond != 0:
		return fmt.Errorf("--step: %v is not a whole number of milliseconds", c.Step)
	case c.Step > 0 && len(c.Delays.list) > 0:
		return fmt.Errorf("--step: --delays is a list, and only a range has steps")
	}
	for _, tick := range c.Tick {
		if tick < time.Millisecond || tick%time.Millisecond != 0 {
			return fmt.Errorf("--tick: %v is not a whole number of milliseconds, at least 1ms", tick)
		}
	}
	for _, s := range shapes(c.Steps, c.Tick) {
		if _, err := binaryladder.Hops(s.config(0)); err != nil {
			return fmt.Errorf("--steps: %w", err)
		}
	}
	return oneOf("--queue-type", c.QueueType, []string{"quorum", "classic"})
}

// scenarios returns the chosen scenarios.
func (c *benchCmd) scenarios(s sizes) ([]bench.Scenario, error) {
	all := s.scenarios(bench.Load{Messages: c.Messages, Rate: c.Rate, Concurrency: c.Concurrency, Body: c.Body})
	if accuracy, ok := all[0].(bench.Accuracy); ok && c.Step > 0 {
		accuracy.Step = c.Step
		all[0] = accuracy
	}
	chosen := c.Scenario
	switch {
	case len(chosen) > 0:
		if err := oneOf("--scenario", chosen, scenarioNames(all)); err != nil {
			return nil, err
		}
	case c.Full:
		chosen = scenarioNames(all)
	case c.Quick:
		chosen = []string{"accuracy", "hol"}
	default:
		chosen = []string{"accuracy", "hol", "rate"}
	}
	all = slices.DeleteFunc(all, func(s bench.Scenario) bool { return !slices.Contains(chosen, s.Name()) })
	if err := c.useless(chosen); err != nil {
		return nil, err
	}
	return all, nil
}

// useless refuses flags that no chosen scenario uses.
func (c *benchCmd) useless(chosen []string) error {
	only := func(names ...string) bool {
		return !slices.ContainsFunc(chosen, func(name string) bool { return !slices.Contains(names, name) })
	}
	switch {
	case c.Messages > 0 && only("rate"):
		return fmt.Errorf("--messages: scenario rate determines the number")
	case c.Rate > 0 && only("rate", "burst"):
		return fmt.Errorf("--rate: scenario %s has rates of its own", strings.Join(chosen, ", "))
	case (c.Delays.given() || c.Step > 0) && !slices.Contains(chosen, "accuracy"):
		return fmt.Errorf("--delays and --step: only scenario accuracy has them, and it is not chosen")
	}
	return nil
}

// leave says what a full run leaves out, unless subjects are named: runs that take minutes, and
// runs that would repeat a result. queueType is measured where the type matters little.
func leave(queueType string) func(bench.Scenario, bench.Subject) bool {
	only := func(scenario bench.Scenario, names ...string) bool { return slices.Contains(names, scenario.Name()) }
	return func(scenario bench.Scenario, s bench.Subject) bool {
		switch {
		case s.QueueType != queueType && only(scenario, "hol", "hol-mix", "hops", "recovery"):
			return true
		case s.QueueType != queueType && (s.Blocks || s.Backend == baseline.TopEntry || s.Backend == "plugin"):
			return true // the plugin has no queues to wait in
		case strings.HasPrefix(s.Variant, "topic"):
			return !only(scenario, "accuracy")
		case s.Backend == baseline.TopEntry:
			return !only(scenario, "accuracy", "hol")
		}
		return s.Baseline && only(scenario, "backlog", "recovery")
	}
}

func scenarioNames(scenarios []bench.Scenario) []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.Name()
	}
	return names
}

// oneOf refuses unknown values. The error lists the known ones.
func oneOf(flag string, values, known []string) error {
	for _, value := range values {
		if !slices.Contains(known, value) {
			return fmt.Errorf("%s: unknown %q (known: %s)", flag, value, strings.Join(known, ", "))
		}
	}
	return nil
}
