package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// burst asks how long it takes until the last of many messages arrives that are all due in the same
// second.
//
// They are published over spread, at an even rate, each with the delay in whole seconds that makes
// it due within the second that begins lead after publishing should have ended. So each subject
// gets the same burst, whatever its resolution. A subject that takes longer than spread gets as
// long as its Pace says.
type burst struct {
	common               // the rate is not used
	spread time.Duration // over which all are published
	lead   time.Duration // between the last publish and the burst, at least a second
}

func (b burst) about() report.Scenario {
	return report.Scenario{Name: "burst", Question: "many due in the same second: how long until the last?",
		Setup: fmt.Sprintf("%s messages published over %v (longer where that is too fast), all due within the same second, %d publishers; drained: from when the last was due to the last arrival",
			format.Thousands(b.messages), b.spread, b.concurrency)}
}

// estimate is publishing, the lead, and some seconds for the burst itself.
func (b burst) estimate(s Subject) time.Duration {
	const itself = 3 * time.Second
	return overhead + warmUpDelay + b.span(s) + b.lead + itself
}

// span is how long publishing may take: spread, or half as long again as is guessed.
func (b burst) span(s Subject) time.Duration {
	return max(b.spread, 3*s.publishTime(b.messages, 0)/2).Truncate(time.Second)
}

func (b burst) delays(s Subject) []time.Duration {
	return every(time.Second, b.span(s)+b.lead+time.Second, time.Second)
}

func (b burst) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, b.common); err != nil {
		return result{}, err
	}
	due := t.recorder.Now() + b.span(t.subject) + b.lead
	err := t.publish(ctx, load{
		delays: make([]time.Duration, b.messages), workers: b.concurrency,
		rate:    float64(b.messages) / b.spread.Seconds(),
		delayAt: func(now time.Duration) time.Duration { return untilBurst(now, due) },
	})
	run, err := t.finish(ctx, b.common, nil, err)
	run.Rate = 0
	tooLate, lastDue, lastArrived := 0, time.Duration(0), time.Duration(0)
	for _, m := range run.samples {
		tooLate += one(m.Due() >= due+time.Second)
		if m.Copies > 0 {
			lastDue, lastArrived = max(lastDue, m.Due()), max(lastArrived, m.Arrived)
		}
	}
	run.DrainMS = milliseconds(max(0, lastArrived-lastDue))
	if err == nil && tooLate > 0 {
		err = fmt.Errorf("publishing took too long: %s of %s were due after the burst (give fewer --messages)",
			format.Thousands(tooLate), format.Thousands(len(run.samples)))
	}
	return run, err
}

// untilBurst is the shortest delay in whole seconds, at least one, after which it is due or later:
// by less than a second, if there is a second left.
func untilBurst(now, due time.Duration) time.Duration {
	const unit = time.Second
	return max(unit, (due-now+unit-1)/unit*unit)
}
