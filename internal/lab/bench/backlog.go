package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// depth, which is scenario backlog, asks what waiting messages cost. Messages are published that
// wait an hour; they are removed at the end with their queues. Once they are stored, the broker's
// memory and disk are compared with those before. Then probes with short delays say how late
// messages are at that depth.
type depth struct {
	common                  // messages wait; those that are due are the probes
	probes    int           // messages whose lateness counts
	probeRate float64       // of the probes, messages per second
	settle    time.Duration // before each look at memory and disk
}

// backlogDelay is longer than any run takes.
const backlogDelay = time.Hour

func (d depth) about() report.Scenario {
	return report.Scenario{Name: "backlog", Question: "many waiting: memory and disk for each, and is it still fast?",
		Setup: fmt.Sprintf("%s messages of %d bytes that wait, %s, %d publishers (publish: the last tenth of them); memory and disk %v later, against those %v after the warm-up; then lateness of %s messages due after %s, %s",
			format.Thousands(d.messages), d.body(), paceOf(d.rate), d.concurrency, d.settle, d.settle,
			format.Thousands(d.probes), span(d.due), paceOf(d.probeRate))}
}

// takes no subject that blocks: the probes would be an hour late, which hol shows.
func (depth) takes(s Subject) bool { return !s.Undelayed && !s.Blocks }

func (d depth) delays() []time.Duration {
	return append(slices.Clone(d.due), backlogDelay)
}

func (depth) fresh() bool { return true }

func (d depth) run(ctx context.Context, t *trial) (result, error) {
	if err := t.warmUp(ctx, d.common); err != nil {
		return result{}, err
	}
	// A broker first gives back what it has to spare after its start and the warm-up.
	if err := pace.Sleep(ctx, d.settle); err != nil {
		return result{}, err
	}
	memory, disk := t.meter.weigh()
	err := t.publish(ctx, load{
		delays: slices.Repeat([]time.Duration{backlogDelay}, d.messages), rate: d.rate, workers: d.concurrency, role: backlog,
	})
	if err == nil {
		err = pace.Sleep(ctx, d.settle)
	}
	memoryAfter, diskAfter := t.meter.weigh()
	if err == nil {
		const seed = 19
		err = t.publish(ctx, load{
			delays: drawn(d.probes, d.due, seed), rate: d.probeRate, workers: d.concurrency,
		})
	}
	run, err := t.finish(ctx, d.common, nil, err)
	waiting := t.recorder.samplesOf(backlog, 0)
	c := count(waiting)
	run.Waiting = c.Published - c.Delivered
	run.Failed += c.Failed
	run.Early += c.Early
	run.faults(waiting)
	run.PublishPerS = publishRate(waiting[len(waiting)*9/10:])
	run.MemoryPerMessage = growth(memory, memoryAfter, run.Waiting)
	run.DiskPerMessage = growth(disk, diskAfter, run.Waiting)
	run.unpriced() // both kinds of messages, and settling
	return run, err
}

// growth is by how many bytes the broker grew for each of n messages, negative where it shrank; 0
// is unknown.
func growth(before, after int64, n int) float64 {
	if before == 0 || after == 0 || n == 0 {
		return 0
	}
	return float64(after-before) / float64(n)
}
