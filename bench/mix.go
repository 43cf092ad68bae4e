package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// mix asks whether long delays block short ones where both come mixed: one message in every waits
// long, the others short, in random order.
type mix struct {
	common
	long, short time.Duration
	every       int
}

func (m mix) about() report.Scenario {
	return report.Scenario{Name: "hol-mix", Question: "long and short mixed: do the long block the short?",
		Setup: fmt.Sprintf("%s messages, %s, one in %d of %v, the others of %v, %d publishers (lateness of the short ones)",
			format.Thousands(m.messages), pace(m.rate), m.every, m.long, m.short, m.concurrency)}
}

func (m mix) estimate(s Subject) time.Duration {
	return overhead + warmUpDelay + s.publishTime(m.messages, m.rate) + m.long
}

func (m mix) delays(Subject) []time.Duration { return []time.Duration{m.short, m.long} }

func (m mix) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, m.common); err != nil {
		return result{}, err
	}
	err := t.publish(ctx, load{delays: m.mixed(), rate: m.rate, workers: m.concurrency})
	run, err := t.finish(ctx, m.common, func(s sample) bool { return s.Delay == m.short }, err)
	run.Points = pointsOf(run.samples)
	run.unpriced() // waiting for the last long ones is most of the run
	run.PublishPerS = publishRate(run.samples)
	return run, err
}

// mixed begins with a long delay, so that even few messages have one to block them.
func (m mix) mixed() []time.Duration {
	const seed1, seed2 = 2026, 17
	random := rand.New(rand.NewPCG(seed1, seed2))
	out := make([]time.Duration, m.messages)
	for i := range out {
		out[i] = m.short
		if i == 0 || random.IntN(max(1, m.every)) == 0 {
			out[i] = m.long
		}
	}
	return out
}
