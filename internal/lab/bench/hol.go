package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// hol asks whether a long delay blocks the short ones behind it (head-of-line blocking): one
// message of the longer delay is stored first, then those of the shorter follow.
type hol struct{ common }

func (h hol) about() report.Scenario {
	return report.Scenario{Name: "hol", Question: "does a long delay block the short ones behind it?",
		Setup: fmt.Sprintf("one message of %s, then %s of %s, %s, %d publishers (lateness of the short ones)",
			slices.Max(h.due), format.Thousands(h.messages), slices.Min(h.due), paceOf(h.rate), h.concurrency)}
}

func (h hol) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, h.common); err != nil {
		return result{}, err
	}
	short := slices.Min(h.due)
	err := t.publish(ctx, load{delays: []time.Duration{slices.Max(h.due)}, workers: 1})
	if err == nil {
		delays := slices.Repeat([]time.Duration{short}, h.messages)
		err = t.publish(ctx, load{delays: delays, rate: h.rate, workers: h.concurrency})
	}
	run, err := t.finish(ctx, h.common, func(m sample) bool { return m.Delay == short }, err)
	run.unpriced() // most of the run waits for the long ones
	return run, err
}
