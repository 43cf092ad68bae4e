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
// message of long is stored first, then the messages of short follow.
type hol struct {
	common
	long, short time.Duration
}

func (h hol) about() report.Scenario {
	return report.Scenario{Name: "hol", Question: "does a long delay block the short ones behind it?",
		Setup: fmt.Sprintf("one message of %s, then %s of %s, %s, %d publishers (lateness of the short ones)",
			h.long, format.Thousands(h.messages), h.short, paceOf(h.rate), h.concurrency)}
}

func (h hol) delays() []time.Duration { return []time.Duration{h.short, h.long} }

func (h hol) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, h.common); err != nil {
		return result{}, err
	}
	err := t.publish(ctx, load{delays: []time.Duration{h.long}, workers: 1})
	if err == nil {
		short := slices.Repeat([]time.Duration{h.short}, h.messages)
		err = t.publish(ctx, load{delays: short, rate: h.rate, workers: h.concurrency})
	}
	run, err := t.finish(ctx, h.common, func(m sample) bool { return m.Delay == h.short }, err)
	run.unpriced() // most of the run waits for the long ones
	return run, err
}
