package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Benchmark is every scenario with every subject, one after another, Repeat times.
type Benchmark struct {
	URL       string
	Target    Target
	Scenarios []Scenario
	Subjects  []Subject
	Repeat    int // 1 where 0

	// Leaves says that a scenario is not to be run with a subject although it takes it; nil leaves
	// out nothing. The report says so.
	Leaves func(Scenario, Subject) bool

	Command  string      // for the report; must not hold credentials
	Progress func(Event) // called from one goroutine at a time; may be nil
}

// Run measures. It always returns a report, of what was done until then if ctx ended.
func (b Benchmark) Run(ctx context.Context) *Report {
	report := b.newReport()
	began := time.Now()
	b.Scenarios = b.possible(report)
	report.GeneratorPerS, report.GeneratorCPU = generator(ctx)
	meter := newMeter(ctx, b.Target)
	report.Broker.Measured = meter.read().ok
	report.Broker.IdleCPU = meter.idle * 100
	steps := b.steps()
	track := newTracker(steps, b.Progress)
	for i, step := range steps {
		if ctx.Err() != nil {
			break
		}
		run, left := b.measure(ctx, step, meter, track.step(i))
		if left != nil {
			report.Leftovers = append(report.Leftovers, left.Error())
		}
		if ctx.Err() != nil {
			break // messages that still waited would look lost: half a run says nothing
		}
		if run.Skipped != "" {
			report.skip(run)
		} else {
			report.Runs = append(report.Runs, run)
		}
		track.done(i, run)
	}
	report.Partial = ctx.Err() != nil
	report.Seconds = time.Since(began).Seconds()
	return report
}

func (b Benchmark) newReport() *Report {
	report := &Report{
		SchemaVersion: SchemaVersion,
		Started:       time.Now().Truncate(time.Second),
		Command:       b.Command,
		Machine:       Machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()},
		Runs:          []Run{},
	}
	if b.Target != nil {
		report.Broker = BrokerInfo{Product: b.Target.Product(), Version: b.Target.Version(), How: b.Target.How()}
		if m, ok := b.Target.(MemorySource); ok {
			report.Broker.MemorySource = m.MemorySource()
		}
	}
	for _, s := range b.Scenarios {
		report.Scenarios = append(report.Scenarios, ScenarioInfo{s.Name(), s.Question(), s.Setup() + b.leftOut(s)})
	}
	return report
}

// possible are the scenarios that this broker allows; the others are noted as skipped.
func (b Benchmark) possible(report *Report) []Scenario {
	var out []Scenario
	for _, s := range b.Scenarios {
		if needsOf(s).outage && stopper(b.Target) == nil {
			report.Skipped = append(report.Skipped,
				Skip{Scenario: s.Name(), Reason: "the broker is not ours to take down"})
			continue
		}
		out = append(out, s)
	}
	return out
}

// A step is one run to be made.
type step struct {
	scenario   Scenario
	subject    Subject
	repetition int
}

// steps rotates the subjects from one repetition to the next, so that none is always the first.
func (b Benchmark) steps() []step {
	var out []step
	for repetition := range max(1, b.Repeat) {
		for _, scenario := range b.Scenarios {
			for i := range b.Subjects {
				subject := b.Subjects[(i+repetition)%len(b.Subjects)]
				if scenario.Takes(subject) && !b.leaves(scenario, subject) {
					out = append(out, step{scenario, subject, repetition + 1})
				}
			}
		}
	}
	return out
}

func (b Benchmark) leaves(scenario Scenario, subject Subject) bool {
	return b.Leaves != nil && b.Leaves(scenario, subject)
}

// leftOut ends the description of a scenario.
func (b Benchmark) leftOut(scenario Scenario) string {
	var names []string
	for _, s := range b.Subjects {
		if scenario.Takes(s) && b.leaves(scenario, s) {
			names = append(names, s.Name()+" ("+s.QueueType+")")
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(names, ", ")
}

// measure makes one run on fresh queues and removes them. left is what removing them failed with.
func (b Benchmark) measure(
	ctx context.Context, step step, m meter, watch func(*Trial) (stop func()),
) (run Run, left error) {
	run, left, err := b.inTrial(ctx, step, m, watch)
	run.Scenario, run.Repetition = step.scenario.Name(), step.repetition
	run.Backend, run.Variant, run.QueueType = step.subject.Backend, step.subject.Variant, step.subject.QueueType
	run.Baseline, run.Undelayed = step.subject.Baseline, step.subject.Undelayed
	switch {
	case errors.Is(err, ErrSkip):
		run.Skipped = strings.TrimPrefix(err.Error(), ErrSkip.Error()+": ")
	case err != nil:
		run.Error = err.Error()
	}
	return run, left
}

func (b Benchmark) inTrial(
	ctx context.Context, step step, m meter, watch func(*Trial) (stop func()),
) (run Run, left, err error) {
	need := needsOf(step.scenario)
	if need.fresh {
		if err := restart(ctx, b.Target); err != nil {
			return Run{}, nil, fmt.Errorf("restart the broker, to begin with fresh memory: %w", err)
		}
	}
	trial, err := openTrial(ctx, step.subject, b.env(step, need), need.outage, m)
	if err != nil {
		return Run{}, nil, err
	}
	defer func() { left = trial.close(ctx) }()
	stop := watch(trial)
	defer stop()
	run, err = step.scenario.Run(ctx, trial)
	return run, nil, err
}

func (b Benchmark) env(step step, need needs) Env {
	prefix := "bench-" + randomName()
	delays := append(step.scenario.Delays(step.subject), warmUpDelay)
	return Env{
		URL: b.URL, Prefix: prefix, Destination: prefix + "-due",
		Delays: distinct(delays), Tick: need.tick,
	}
}

// restart does nothing with a broker that is not ours to restart.
func restart(ctx context.Context, b Target) error {
	s := stopper(b)
	if s == nil {
		return nil
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.Run(ctx)
}

// randomName tells the objects of one run from those of any other, on a broker that others use too.
func randomName() string {
	const size = 5
	var raw [size]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	return hex.EncodeToString(raw[:])
}
