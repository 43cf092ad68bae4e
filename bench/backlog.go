package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// Backlog asks what it costs that many messages wait. Messages are published that wait an hour,
// which nobody waits for: they are removed at the end with what they wait in. Once they are stored,
// the broker's memory and disk are compared with those before; then Probes with short delays say
// how late messages are at that depth.
//
// The broker is restarted before each run, where it is ours: memory that it has once been given
// does not grow again.
type Backlog struct {
	Load                    // Messages wait
	Probes    int           // messages whose lateness counts
	ProbeRate float64       // of the probes, messages per second
	Settle    time.Duration // before each look at memory and disk
	From, To  time.Duration // delays of the probes, whole seconds
}

// backlogDelay is longer than any run takes.
const backlogDelay = time.Hour

// Name is "backlog".
func (Backlog) Name() string { return "backlog" }

// Question is what the scenario answers.
func (Backlog) Question() string {
	return "many waiting: memory and disk for each, and is it still fast?"
}

// Setup says what is published.
func (b Backlog) Setup() string {
	return fmt.Sprintf("%s messages of %d bytes that wait, %s, %d publishers (publish: the last tenth of them); memory and disk %v later, against those %v after the warm-up; then lateness of %s messages due after %s, %s",
		format.Thousands(b.Messages), b.body(), pace(b.Rate), b.Concurrency, b.Settle, b.Settle,
		format.Thousands(b.Probes), span(b.From, b.To), pace(b.ProbeRate))
}

// Takes every subject that delays, but for those that block: the probes would be an hour late,
// which hol shows.
func (Backlog) Takes(s Subject) bool { return !s.Undelayed && !s.Blocks }

// Estimate is the restart, publishing, settling and the probes.
func (b Backlog) Estimate(s Subject) time.Duration {
	return restartTime + overhead + warmUpDelay + s.storeTime(b.Messages, b.Rate) + 2*b.Settle +
		s.publishTime(b.Probes, b.ProbeRate) + b.To
}

// Delays are those of the probes, and the backlog's.
func (b Backlog) Delays(Subject) []time.Duration {
	return append(every(b.From, b.To, time.Second), backlogDelay)
}

func (Backlog) needs() needs { return needs{fresh: true} }

// restartTime guesses how long it takes to stop a broker and start it.
const restartTime = 8 * time.Second

// storeTime guesses how long n messages take to store, where Pace is no limit.
func (s Subject) storeTime(n int, rate float64) time.Duration {
	const fast = 15_000 // messages a second on two cores
	if s.Pace == 0 {
		s.Pace = fast
	}
	return s.publishTime(n, rate)
}

// Run stores the backlog, weighs it, and sends the probes.
func (b Backlog) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, b.Load); err != nil {
		return Run{}, err
	}
	// What a broker that has just booted, or warmed up, has to spare it gives back first.
	if err := pause(ctx, b.Settle); err != nil {
		return Run{}, err
	}
	before := s.weigh()
	err := s.store(ctx, b.Load)
	if err == nil {
		err = pause(ctx, b.Settle)
	}
	after := s.weigh()
	if err == nil {
		err = s.publish(ctx, load{delays: b.delays(), rate: b.ProbeRate, workers: b.Concurrency})
	}
	run, err := s.finish(ctx, b.Patience, nil, err)
	run = b.settings(run)
	s.addBacklog(&run)
	run.weigh(before, after)
	run.DelayMinMS, run.DelayMaxMS = delayRange(run.Samples)
	// The broker was measured over both, and settling.
	run.BrokerCPU, run.ProcessCPU = 0, 0
	run.Rate = b.Rate
	return run, err
}

func (b Backlog) delays() []time.Duration {
	const seed1, seed2 = 2026, 19
	return drawn(b.Probes, b.From, b.To, time.Second, rand.NewPCG(seed1, seed2))
}

// A weight is what the broker takes up, in bytes; 0 is unknown.
type weight struct{ memory, disk int64 }

func (s *Trial) weigh() weight { return weight{s.meter.rss(), s.meter.disk()} }

// store publishes a backlog.
func (s *Trial) store(ctx context.Context, l Load) error {
	delays := slices.Repeat([]time.Duration{backlogDelay}, l.Messages)
	return s.publish(ctx, load{delays: delays, rate: l.Rate, workers: l.Concurrency, role: backlog})
}

// addBacklog adds to the run what became of the messages that only wait.
func (s *Trial) addBacklog(run *Run) {
	waiting := s.recorder.samplesOf(backlog)
	c := count(waiting)
	run.Waiting = c.Published - c.Delivered
	run.Failed += c.Failed
	run.Early += c.Early
	run.faults(waiting)
	run.PublishPerS = publishRate(waiting[len(waiting)*9/10:])
}

// weigh notes by how much the broker grew for each message that waits, as far as that is known.
func (r *Run) weigh(before, after weight) {
	r.MemoryPerMessage = growth(before.memory, after.memory, r.Waiting)
	r.DiskPerMessage = growth(before.disk, after.disk, r.Waiting)
}

func growth(before, after int64, n int) float64 {
	if before == 0 || after <= before || n == 0 {
		return 0
	}
	return float64(after-before) / float64(n)
}
