package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A load is messages to publish, in the order of delays. Each worker waits for the confirm of one
// message before it takes the next.
type load struct {
	delays  []time.Duration
	rate    float64 // messages per second; 0 is as fast as confirmed
	workers int
	role    role
}

const (
	// maxFailures is after how many failures a load ends.
	maxFailures = 100
	// stall is how long publishing may make no progress at all.
	stall = 30 * time.Second
)

var errStalled = fmt.Errorf("nothing was confirmed for %v", stall)

// publish sends the load and returns when the last confirm is in. Messages that fail are counted.
// The error is why publishing could not go on, or that of ctx.
func (t *trial) publish(ctx context.Context, l load) error {
	first := t.recorder.plan(len(l.delays))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go t.watch(ctx, cancel)

	start := t.recorder.Now()
	intended := func(i int) time.Duration { // 0: when it is sent
		if l.rate <= 0 {
			return 0
		}
		return start + time.Duration(float64(i)/l.rate*float64(time.Second))
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range max(1, min(l.workers, len(l.delays))) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(l.delays) {
					return
				}
				if early := intended(i) - t.recorder.Now(); early > 0 && pace.Sleep(ctx, early) != nil {
					return
				}
				err := t.publishOne(ctx, l, i, first+i, intended(i))
				if err != nil && t.recorder.Counts().Failed > maxFailures {
					cancel(fmt.Errorf("too many messages failed: %w", err))
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func (t *trial) publishOne(ctx context.Context, l load, i, id int, intended time.Duration) error {
	m := sample{
		ID: id, Group: int(l.role), Aside: l.role != measured && l.role != warmUp, Intended: intended, Asked: t.recorder.Now(), Delay: l.delays[i],
	}
	t.recorder.Ask(m)
	err := t.delayer.Publish(ctx, t.destination.exchange, t.destination.queue, m.Delay, amqp091.Publishing{
		MessageId:    strconv.Itoa(id),
		DeliveryMode: amqp091.Persistent,
		Body:         t.body,
	})
	t.recorder.Answer(id, t.recorder.Now(), err)
	return err
}

// watch gives up on a load that makes no progress: a Delayer may wait for a lost broker forever.
func (t *trial) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(stall / 10)
	defer ticker.Stop()
	seen, since := -1, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		counts := t.recorder.Counts()
		if now := counts.Confirmed + counts.Failed; now != seen {
			seen, since = now, time.Now()
		} else if time.Since(since) > stall {
			cancel(errStalled)
		}
	}
}
