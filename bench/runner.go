package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Benchmark is every scenario with every subject, one after another, Repeat times.
type Benchmark struct {
	URL       string
	Broker    Broker
	Scenarios []Scenario
	Subjects  []Subject
	Repeat    int         // 1 where 0
	Command   string      // for the report; must not hold credentials
	Progress  func(Event) // called from one goroutine at a time; may be nil
}

// Run measures. It always returns a report, of what was done until then if ctx ended.
func (b Benchmark) Run(ctx context.Context) *Report {
	report := b.newReport()
	began := time.Now()
	meter := newMeter(ctx, b.Broker)
	report.Broker.Measured = meter.read().ok
	report.Broker.IdleCPU = meter.idle * 100
	steps := b.steps()
	track := newTracker(steps, b.Progress)
	for i, step := range steps {
		if ctx.Err() != nil {
			break
		}
		run := b.measure(ctx, step, meter, track.step(i))
		if ctx.Err() != nil {
			break // what was still on its way would look lost: half a run says nothing
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
	if b.Broker != nil {
		report.Broker = BrokerInfo{Product: b.Broker.Product(), Version: b.Broker.Version(), How: b.Broker.How()}
	}
	for _, s := range b.Scenarios {
		report.Scenarios = append(report.Scenarios, ScenarioInfo{s.Name(), s.Question(), s.Setup()})
	}
	return report
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
				if scenario.Takes(subject) {
					out = append(out, step{scenario, subject, repetition + 1})
				}
			}
		}
	}
	return out
}

// measure makes one run on fresh queues and removes them.
func (b Benchmark) measure(ctx context.Context, step step, m meter, watch func(*Session) (stop func())) Run {
	run, err := b.inSession(ctx, step, m, watch)
	run.Scenario, run.Repetition = step.scenario.Name(), step.repetition
	run.Backend, run.Variant, run.QueueType = step.subject.Backend, step.subject.Variant, step.subject.QueueType
	run.Baseline, run.Undelayed = step.subject.Baseline, step.subject.Undelayed
	switch {
	case errors.Is(err, ErrSkip):
		run.Skipped = strings.TrimPrefix(err.Error(), ErrSkip.Error()+": ")
	case err != nil:
		run.Error = err.Error()
	}
	return run
}

func (b Benchmark) inSession(
	ctx context.Context, step step, m meter, watch func(*Session) (stop func()),
) (run Run, err error) {
	prefix := "bench-" + randomName()
	session, err := openSession(ctx, step.subject, Env{URL: b.URL, Prefix: prefix, Destination: prefix + "-due"}, m)
	if err != nil {
		return Run{}, err
	}
	defer func() {
		if removed := session.close(ctx); err == nil {
			err = removed
		}
	}()
	stop := watch(session)
	defer stop()
	return step.scenario.Run(ctx, session)
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
