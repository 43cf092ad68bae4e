package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench"
)

// defaults are what flags that were not given stand for.
type defaults struct {
	messages   int
	delays     delayRange
	hol        bench.HOL
	queueTypes []string
	warmUp     int
}

// The full run has the delays and the head-of-line blocking of the project's reference figures.
var full = defaults{
	messages:   20_000,
	delays:     delayRange{time.Second, 15 * time.Second},
	hol:        bench.HOL{Load: bench.Load{Messages: 1000}, Long: 30 * time.Second, Short: time.Second},
	queueTypes: []string{"quorum", "classic"},
	warmUp:     500,
}

// The quick run must end within three minutes on two cores, the start of a broker included. Every
// subject gets the same work, so it is the slowest that limits it: the ladder entered at the top carries
// about 500 messages a second on two cores, and would take a minute for what the others do in seconds.
// Queues are those that our users get by default.
var quick = defaults{
	messages:   5_000,
	delays:     delayRange{time.Second, 5 * time.Second},
	hol:        bench.HOL{Load: bench.Load{Messages: 500}, Long: 5 * time.Second, Short: time.Second},
	queueTypes: []string{"quorum"},
	warmUp:     200,
}

// rate is the same in every run that has it; --quick does not, because it takes two minutes a subject. Its
// delays are short, so that a rate is soon in full swing, and still take a ladder one hop or two.
var rate = bench.Rate{
	DelayMin: time.Second, DelayMax: 3 * time.Second, Probe: 4 * time.Second, Settle: time.Second,
	Limit: 100 * time.Millisecond, First: 500, Most: 64_000, Budget: 2 * time.Minute,
}

// patience is how long a message may stay away, when nothing else comes either, before it counts as lost.
const patience = 20 * time.Second

// plan is what a command line asks for.
type plan struct {
	scenarios []bench.Scenario
	subjects  []bench.Subject
}

func (c *benchCmd) plan() (plan, error) {
	d := full
	if c.Quick {
		d = quick
	}
	if len(c.QueueType) > 0 {
		d.queueTypes = c.QueueType
	}
	if err := c.check(); err != nil {
		return plan{}, err
	}
	scenarios, err := c.scenarios(d)
	if err != nil {
		return plan{}, err
	}
	subjects, err := selectSubjects(c.Backend, d.queueTypes, tiers(cmp.Or(c.Delays, d.delays), d))
	return plan{scenarios, subjects}, err
}

// tiers are all the delays that the scenarios have.
func tiers(r delayRange, d defaults) []time.Duration {
	out := []time.Duration{d.hol.Short, d.hol.Long}
	for _, r := range []delayRange{r, {rate.DelayMin, rate.DelayMax}} {
		for delay := r.from; delay <= r.to && len(out) <= 2*mostTiers; delay += time.Second {
			out = append(out, delay)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// check refuses numbers that make no sense.
func (c *benchCmd) check() error {
	switch {
	case c.Messages < 0:
		return fmt.Errorf("--messages: %d is negative", c.Messages)
	case c.Rate < 0:
		return fmt.Errorf("--rate: %g is negative (leave it out to publish as fast as confirmed)", c.Rate)
	case c.Concurrency < 1:
		return fmt.Errorf("--concurrency: %d (at least 1)", c.Concurrency)
	case c.Repeat < 1:
		return fmt.Errorf("--repeat: %d (at least 1)", c.Repeat)
	}
	return oneOf("--queue-type", c.QueueType, []string{"quorum", "classic"})
}

func (c *benchCmd) scenarios(d defaults) ([]bench.Scenario, error) {
	load := bench.Load{
		Messages: cmp.Or(c.Messages, d.messages), Rate: c.Rate, Concurrency: c.Concurrency,
		WarmUp: d.warmUp, Patience: patience,
	}
	delays := cmp.Or(c.Delays, d.delays)
	hol := d.hol
	short := load
	short.Messages = hol.Messages
	hol.Load = short
	highest := rate
	highest.Load = bench.Load{Concurrency: c.Concurrency, WarmUp: d.warmUp, Patience: patience}
	all := []bench.Scenario{
		bench.Accuracy{Load: load, DelayMin: delays.from, DelayMax: delays.to},
		hol,
		highest,
	}
	switch {
	case len(c.Scenario) > 0:
	case c.Quick:
		return all[:2], nil
	default:
		return all, nil
	}
	if err := oneOf("--scenario", c.Scenario, scenarioNames(all)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s bench.Scenario) bool { return !slices.Contains(c.Scenario, s.Name()) }), nil
}

func scenarioNames(scenarios []bench.Scenario) []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.Name()
	}
	return names
}

// oneOf refuses a value that is not known, and names those that are.
func oneOf(flag string, values, known []string) error {
	for _, value := range values {
		if !slices.Contains(known, value) {
			return fmt.Errorf("%s: unknown %q (known: %s)", flag, value, strings.Join(known, ", "))
		}
	}
	return nil
}
