package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
)

// recovery asks how long a restart takes with many messages waiting, and how late those are that
// were due meanwhile. Messages wait for an hour, as in depth. Then more are stored, whose lateness
// counts, so that they are due while the broker is down or soon after. settle passes, and the
// broker is stopped in good order and started at once.
type recovery struct {
	common                 // messages wait
	due      int           // messages that come due
	from, to time.Duration // delays of those, whole seconds
	settle   time.Duration // RabbitMQ before 4.0 may forget what was declared less than two seconds before
}

func (r recovery) about() report.Scenario {
	return report.Scenario{Name: "recovery", Question: "restarted with many waiting: when does it serve, how late are those that were due?",
		Setup: fmt.Sprintf("%s messages of %d bytes that wait, and %s due after %s, %d publishers; %v later the broker is stopped and started; down: until it takes connections; serves: until a client that starts anew has a message confirmed; both from the beginning of the stop (lateness of those that were due; of those that wait nobody looks whether they are still there: crash asks what is lost)",
			format.Thousands(r.messages), r.body(), format.Thousands(r.due), span(r.from, r.to), r.concurrency, r.settle)}
}

// takes the subjects that depth takes.
func (recovery) takes(s Subject) bool { return depth{}.takes(s) }

// estimate is publishing, settling, and the restart, which most of what is due falls into.
func (r recovery) estimate(s Subject) time.Duration {
	const more = 4 * time.Second // a broker that has much to read starts more slowly
	return overhead + warmUpDelay + s.storeTime(r.messages+r.due, 0) + max(r.to, r.settle+restartTime+more)
}

func (r recovery) delays(Subject) []time.Duration {
	return append(every(r.from, r.to, time.Second), backlogDelay)
}

func (recovery) needs() needs { return needs{outage: true} }

func (r recovery) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, r.common); err != nil {
		return result{}, err
	}
	err := t.store(ctx, r.common)
	if err == nil {
		const seed = 29
		err = t.publish(ctx, load{delays: drawn(r.due, r.from, r.to, time.Second, seed), workers: r.concurrency})
	}
	if err == nil {
		err = pause(ctx, r.settle)
	}
	var o outage
	if err == nil {
		o, err = t.takeDown(ctx, t.meter.target.Stop)
	}
	run, err := t.finishOutage(ctx, r.common, o, t.delayer.Limits().SurvivesRestart, err)
	t.addBacklog(&run)
	return run, err
}
