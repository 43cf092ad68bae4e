package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// Crash kills the broker (SIGKILL) while messages wait and move. It asks how many are lost, how
// many come twice, and how long until it is back. The broker is killed when half of the delays are
// over, and not before Settle has passed since the last publish: RabbitMQ before 4.0 forgets a
// queue that was declared less than two seconds before.
type Crash struct {
	Load
	DelayMin, DelayMax time.Duration // whole seconds
	Settle             time.Duration
}

// Name is "crash".
func (Crash) Name() string { return "crash" }

// Question is what the scenario answers.
func (Crash) Question() string {
	return "killed with messages waiting: what is lost, what comes twice, when is it back?"
}

// Setup says what is done.
func (c Crash) Setup() string {
	return fmt.Sprintf("%s messages due after %s, %s, %d publishers; kill -9 when about half are due, and start at once; down: until it takes connections; serves: until a client that starts anew has a message confirmed",
		format.Thousands(c.Messages), span(c.DelayMin, c.DelayMax), pace(c.Rate), c.Concurrency)
}

// Takes every subject that delays.
func (Crash) Takes(s Subject) bool { return !s.Undelayed }

// Estimate is publishing, the delays, the restart, and the patience with what is lost, which is
// known of classic queues.
func (c Crash) Estimate(s Subject) time.Duration {
	lost := time.Duration(0)
	if s.QueueType == "classic" {
		lost = c.Patience
	}
	return overhead + warmUpDelay + s.publishTime(c.Messages, c.Rate) + c.DelayMax + restartTime/2 + lost
}

// Delays are whole seconds.
func (c Crash) Delays(Subject) []time.Duration { return every(c.DelayMin, c.DelayMax, time.Second) }

func (Crash) needs() needs { return needs{outage: true} }

// Run publishes all, kills the broker, and waits for all.
func (c Crash) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, c.Load); err != nil {
		return Run{}, err
	}
	began := s.recorder.now()
	err := s.publish(ctx, load{delays: c.delays(), rate: c.Rate, workers: c.Concurrency})
	var o outage
	if err == nil {
		half := began + (c.DelayMin+c.DelayMax)/2 - s.recorder.now()
		err = pause(ctx, max(half, c.Settle))
	}
	if err == nil {
		o, err = s.takeDown(ctx, func(_ context.Context, b Stopper) error { return b.Kill() })
	}
	run, err := s.finishOutage(ctx, c.Load, o, s.delayer.Limits().SurvivesCrash, err)
	run = c.settings(run)
	run.DelayMinMS, run.DelayMaxMS = milliseconds(c.DelayMin), milliseconds(c.DelayMax)
	return run, err
}

func (c Crash) delays() []time.Duration {
	const seed1, seed2 = 2026, 23
	return drawn(c.Messages, c.DelayMin, c.DelayMax, time.Second, rand.NewPCG(seed1, seed2))
}
