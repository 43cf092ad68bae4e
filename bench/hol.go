package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// hol asks whether a long delay blocks the short ones behind it (head-of-line blocking): one
// message of long is stored first, then the messages of short follow. With every above 0 it is
// scenario hol-mix: one message in every waits long, the others short, in random order.
type hol struct {
	common
	long, short time.Duration
	every       int
}

func (h hol) about() report.Scenario {
	if h.every > 0 {
		return report.Scenario{Name: "hol-mix", Question: "long and short mixed: do the long block the short?",
			Setup: fmt.Sprintf("%s messages, %s, one in %d of %v, the others of %v, %d publishers (lateness of the short ones)",
				format.Thousands(h.messages), paceOf(h.rate), h.every, h.long, h.short, h.concurrency)}
	}
	return report.Scenario{Name: "hol", Question: "does a long delay block the short ones behind it?",
		Setup: fmt.Sprintf("one message of %s, then %s of %s, %s, %d publishers (lateness of the short ones)",
			h.long, format.Thousands(h.messages), h.short, paceOf(h.rate), h.concurrency)}
}

func (h hol) delays(Subject) []time.Duration { return []time.Duration{h.short, h.long} }

// estimate is the warm-up, publishing, and the longest delay.
func (h hol) estimate(s Subject) time.Duration {
	published := s.publishTime(h.messages, h.rate)
	if h.every > 0 {
		return overhead + warmUpDelay + published + h.long
	}
	return overhead + max(h.long, published+h.short)
}

func (h hol) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, h.common); err != nil {
		return result{}, err
	}
	messages, err := h.mixed(), error(nil)
	if h.every == 0 {
		messages = slices.Repeat([]time.Duration{h.short}, h.messages)
		err = t.publish(ctx, load{delays: []time.Duration{h.long}, workers: 1})
	}
	if err == nil {
		err = t.publish(ctx, load{delays: messages, rate: h.rate, workers: h.concurrency})
	}
	run, err := t.finish(ctx, h.common, func(m sample) bool { return m.Delay == h.short }, err)
	run.unpriced() // most of the run waits for the long ones
	return run, err
}

// mixed begins with a long delay, so that even few messages have one to block them.
func (h hol) mixed() []time.Duration {
	const seed1, seed2 = 2026, 17
	random := rand.New(rand.NewPCG(seed1, seed2))
	out := make([]time.Duration, h.messages)
	for i := range out {
		out[i] = h.short
		if i == 0 || random.IntN(max(1, h.every)) == 0 {
			out[i] = h.long
		}
	}
	return out
}
