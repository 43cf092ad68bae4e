package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// Recovery asks how long a restart takes with many messages waiting, and how late those are that
// were due meanwhile. Messages wait for an hour, as in [Backlog]; then Due more, whose lateness
// counts, are stored so that they are due while the broker is down or soon after, Settle passes,
// and the broker is stopped in good order and started at once.
type Recovery struct {
	Load                   // Messages wait
	Due      int           // messages that come due
	From, To time.Duration // delays of those, whole seconds
	Settle   time.Duration // RabbitMQ before 4.0 may forget what was declared less than two seconds before
}

// Name is "recovery".
func (Recovery) Name() string { return "recovery" }

// Question is what the scenario answers.
func (Recovery) Question() string {
	return "restarted with many waiting: when does it serve, how late are those that were due?"
}

// Setup says what is done.
func (r Recovery) Setup() string {
	return fmt.Sprintf("%s messages of %d bytes that wait, and %s due after %s, %d publishers; %v later the broker is stopped and started; down: until it takes connections; serves: until a client that starts anew has a message confirmed; both from the beginning of the stop (lateness of those that were due)",
		format.Thousands(r.Messages), r.body(), format.Thousands(r.Due), span(r.From, r.To), r.Concurrency, r.Settle)
}

// Takes every subject that delays, but for those that block, as [Backlog].
func (Recovery) Takes(s Subject) bool { return !s.Undelayed && !s.Blocks }

// Estimate is publishing, settling, and the restart, which most of what is due falls into.
func (r Recovery) Estimate(s Subject) time.Duration {
	const more = 4 * time.Second // a broker that has much to read starts more slowly
	return overhead + warmUpDelay + s.storeTime(r.Messages+r.Due, 0) + max(r.To, r.Settle+restartTime+more)
}

// Delays are whole seconds, and the backlog's.
func (r Recovery) Delays(Subject) []time.Duration {
	return append(every(r.From, r.To, time.Second), backlogDelay)
}

func (Recovery) needs() needs { return needs{outage: true} }

// Run stores all, restarts the broker, and waits for what is due.
func (r Recovery) Run(ctx context.Context, s *Trial) (Run, error) {
	if err := s.warmUp(ctx, r.Load); err != nil {
		return Run{}, err
	}
	err := s.store(ctx, r.Load)
	if err == nil {
		err = s.publish(ctx, load{delays: r.delays(), workers: r.Concurrency})
	}
	if err == nil {
		err = pause(ctx, r.Settle)
	}
	var o outage
	if err == nil {
		o, err = s.takeDown(ctx, func(ctx context.Context, b Stopper) error { return b.Stop(ctx) })
	}
	run, err := s.finishOutage(ctx, r.Load, o, s.delayer.Limits().SurvivesRestart, err)
	run = r.settings(run)
	s.addBacklog(&run)
	run.DelayMinMS, run.DelayMaxMS = delayRange(run.Samples)
	run.ProcessCPU = 0 // of two kinds of messages together
	return run, err
}

func (r Recovery) delays() []time.Duration {
	const seed1, seed2 = 2026, 29
	return drawn(r.Due, r.From, r.To, time.Second, rand.NewPCG(seed1, seed2))
}
