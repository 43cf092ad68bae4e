// Package bench measures how a configuration delays messages: how late, how fast, at what cost to
// the broker, and whether messages are lost, doubled or early.
//
// A [Benchmark] runs scenarios with each [Subject], and returns a report, which package report
// writes as tables and pages. A scenario publishes through a subject in a trial. The trial's
// recorder keeps a sample of every message, and statistics over the raw samples make a run of the
// report. Nothing is aggregated before that: every percentile is exact.
//
//   - Publisher and consumer are one process with one monotonic clock, on separate connections.
//   - Lateness is arrival minus the time the message was due: one delay after its Publish was
//     intended. At a fixed rate that is the schedule, kept or not (no coordinated omission); without
//     one it is just before Publish.
//   - A message is early if it arrives before (the time just before Publish) + delay.
//   - Broker CPU runs from the first Publish to the last arrival, without what an idle broker uses.
package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A Benchmark is every scenario with every subject, one after another, Repeat times. Broker and
// Subjects are required.
type Benchmark struct {
	Broker   *rabbit.Broker
	Subjects []Subject

	// Size is how much is done. Scenarios are names of [Scenarios]; empty runs those of the Size.
	Size      Size
	Scenarios []string
	Repeat    int // 1 where 0

	// The following replace what the Size says, in the scenarios that have it, if they are not 0.
	Messages    int             // of each run
	Rate        float64         // messages per second
	Concurrency int             // publishers, each waiting for its confirm; 256 where 0
	Body        int             // bytes of each message; 64 where 0
	Delays      []time.Duration // the delays of accuracy and cost, in whole milliseconds
	Receiving   Receiving

	Command  string      // for the report; must not hold credentials
	Progress func(Event) // may be nil
}

// An Event tells how far a benchmark is: that a run begins, and that it is over.
type Event struct {
	Step, Steps int         // the run's number, from 1
	Name        string      // scenario, subject and type of queue
	Done        *report.Run // the finished run, or nil
	Skipped     string      // why this broker could not do the finished run, or ""
}

// Run measures. If ctx ends, it returns a report of what was done until then.
func (b Benchmark) Run(ctx context.Context) *report.Report {
	return runner{b, b.chosen()}.run(ctx, newMeter(ctx, b.Broker))
}

type runner struct {
	Benchmark
	scenarios []scenario
}

func (r runner) run(ctx context.Context, meter meter) *report.Report {
	out := r.newReport()
	began := time.Now()
	out.Broker.Measured = meter.read().ok
	out.Broker.IdleCPU = meter.idle * 100
	steps := r.steps()
	for i, step := range steps {
		if ctx.Err() != nil {
			break
		}
		event := Event{Step: i + 1, Steps: len(steps), Name: fmt.Sprintf("%s, %s, %s",
			step.scenario.about().Name, step.subject.run().Name(), step.subject.QueueType)}
		r.tell(event)
		run, left := r.measure(ctx, step, meter)
		if left != nil {
			out.Leftovers = append(out.Leftovers, left.Error())
		}
		if ctx.Err() != nil {
			break // messages that still waited would look lost: half a run says nothing
		}
		if run.skipped == "" {
			out.Runs = append(out.Runs, run.Run)
		} else {
			skip := report.Skip{Backend: run.Backend, Variant: run.Variant, QueueType: run.QueueType, Reason: run.skipped}
			if !slices.Contains(out.Skipped, skip) { // once for each subject
				out.Skipped = append(out.Skipped, skip)
			}
		}
		event.Done, event.Skipped = &run.Run, run.skipped
		r.tell(event)
	}
	out.Partial = ctx.Err() != nil
	out.Seconds = time.Since(began).Seconds()
	return out
}

func (r runner) tell(e Event) {
	if r.Progress != nil {
		r.Progress(e)
	}
}

func (r runner) newReport() *report.Report {
	out := &report.Report{
		SchemaVersion: report.SchemaVersion,
		Started:       time.Now().Truncate(time.Second),
		Command:       r.Command,
		Machine:       machine(),
		Broker: report.Broker{
			Product: r.Broker.Product(), Version: r.Broker.Version(), How: r.Broker.How(), Platform: r.Broker.Platform(),
		},
		Runs: []report.Run{},
	}
	for _, s := range r.Subjects {
		named := report.Subject{Name: s.Name(), About: s.About}
		if s.About != "" && !slices.Contains(out.Subjects, named) {
			out.Subjects = append(out.Subjects, named)
		}
	}
	for _, s := range r.scenarios {
		about := s.about()
		var excluded []string
		for _, subject := range r.Subjects {
			if s.takes(subject) && !subject.in(about.Name) {
				excluded = append(excluded, subject.run().Name()+" ("+subject.QueueType+")")
			}
		}
		if text := r.Receiving.String(); text != "" {
			about.Setup += "; " + text
		}
		if len(excluded) > 0 {
			about.Setup += "; left out: " + strings.Join(excluded, ", ")
		}
		out.Scenarios = append(out.Scenarios, about)
	}
	return out
}

type step struct {
	scenario   scenario
	subject    Subject
	repetition int
	afresh     bool // the first of its scenario: what the one before did to the broker is none of its business
}

// steps rotates the subjects from one repetition to the next, so that none is always the first.
func (r runner) steps() []step {
	var out []step
	for repetition := range max(1, r.Repeat) {
		for _, scenario := range r.scenarios {
			afresh := len(out) > 0
			for i := range r.Subjects {
				subject := r.Subjects[(i+repetition)%len(r.Subjects)]
				if scenario.takes(subject) && subject.in(scenario.about().Name) {
					out = append(out, step{scenario, subject, repetition + 1, afresh})
					afresh = false
				}
			}
		}
	}
	return out
}

// mostDelays are told to a subject: the shortest, beside the longest of all.
const mostDelays = 1000

// measure makes one run on fresh queues and removes them. left is what removing them failed with.
func (r runner) measure(ctx context.Context, step step, m meter) (run result, left error) {
	run, left, err := r.inTrial(ctx, step, m)
	run.Scenario, run.Repetition = step.scenario.about().Name, step.repetition
	run.Backend, run.Variant, run.QueueType = step.subject.Backend, step.subject.Variant, step.subject.QueueType
	run.Baseline, run.Undelayed = step.subject.Baseline, step.subject.Undelayed
	switch {
	case errors.Is(err, ErrSkip):
		run.skipped = strings.TrimPrefix(err.Error(), ErrSkip.Error()+": ")
	case err != nil:
		run.Error = err.Error()
	}
	return run, left
}

func (r runner) inTrial(ctx context.Context, step step, m meter) (run result, left, err error) {
	if (step.scenario.fresh() || step.afresh) && r.Broker.Owned() {
		// A broker that is restarted forgets memory that it was once given, what it keeps of queues
		// that are gone, and what went wrong in it. Its start goes on after it takes connections.
		err := r.Broker.Restart(ctx)
		if err == nil {
			err = pace.Sleep(ctx, settling)
		}
		if err != nil {
			return result{}, nil, fmt.Errorf("restart the broker, to begin afresh: %w", err)
		}
	}
	// Unique, so that the objects of a run are no other's, on a broker that others use too.
	prefix := "bench-" + strings.ToLower(rand.Text())[:10]
	delays := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(step.scenario.delays()), warmUpDelay))))
	tick := tickOf(delays)
	if longest := delays[len(delays)-1]; len(delays) > mostDelays {
		delays = append(delays[:mostDelays], longest)
	}
	trial, err := openTrial(ctx, step.subject, Env{
		URL: r.Broker.URL(), Prefix: prefix, Destination: prefix + "-due",
		Delays: delays, Tick: tick,
	}, r.Receiving, m)
	if err != nil {
		return result{}, nil, err
	}
	defer func() { left = trial.close(ctx) }()
	run, err = step.scenario.run(ctx, trial)
	return run, nil, err
}
