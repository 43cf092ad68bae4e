package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// crash kills the broker (SIGKILL) while messages wait and move. It asks how many are lost, how
// many come twice, and how long until it is back. The broker is killed when half of the delays are
// over, and not before settle has passed since the last publish: RabbitMQ before 4.0 forgets a
// queue that was declared less than two seconds before.
type crash struct {
	common
	from, to time.Duration // delays, whole seconds
	settle   time.Duration
}

func (c crash) about() report.Scenario {
	return report.Scenario{Name: "crash", Question: "killed with messages waiting: what is lost, what comes twice, when is it back?",
		Setup: fmt.Sprintf("%s messages due after %s, %s, %d publishers; kill -9 when about half are due, and start at once; down: until it takes connections; serves: until a client that starts anew has a message confirmed",
			format.Thousands(c.messages), span(c.from, c.to), pace(c.rate), c.concurrency)}
}

// estimate is publishing, the delays, the restart, and the patience with what is lost, which is
// known of classic queues.
func (c crash) estimate(s Subject) time.Duration {
	lost := time.Duration(0)
	if s.QueueType == "classic" {
		lost = c.patience
	}
	return overhead + warmUpDelay + s.publishTime(c.messages, c.rate) + c.to + restartTime/2 + lost
}

func (c crash) delays(Subject) []time.Duration { return every(c.from, c.to, time.Second) }

func (crash) needs() needs { return needs{outage: true} }

func (c crash) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, c.common); err != nil {
		return result{}, err
	}
	began := t.recorder.Now()
	const seed = 23
	err := t.publish(ctx, load{
		delays: drawn(c.messages, c.from, c.to, time.Second, seed), rate: c.rate, workers: c.concurrency,
	})
	var o outage
	if err == nil {
		half := began + (c.from+c.to)/2 - t.recorder.Now()
		err = pause(ctx, max(half, c.settle))
	}
	if err == nil {
		o, err = t.takeDown(ctx, func(context.Context) error { return t.meter.target.Kill() })
	}
	return t.finishOutage(ctx, c.common, o, t.delayer.Limits().SurvivesCrash, err)
}
