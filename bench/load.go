package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A load is messages to publish: in order of delays, by so many workers, each of which waits for
// the confirm of one message before it takes the next.
type load struct {
	delays  []time.Duration
	rate    float64 // messages per second; 0 is as fast as confirmed
	workers int
	role    role

	// delayAt, if there is one, chooses each delay just before Publish; delays then only say how
	// many. Such messages are intended when they are sent: the delay already makes up for a late
	// one.
	delayAt func(now time.Duration) time.Duration
}

const (
	// maxFailures ends a load that would only go on to fail.
	maxFailures = 100
	// stall is how long publishing may make no progress at all.
	stall = 30 * time.Second
)

var errStalled = fmt.Errorf("nothing was confirmed for %v", stall)

// publish sends the load and returns when the last confirm is in. Messages that fail are counted;
// it returns an error only if ctx ended or publishing could not go on.
func (s *Trial) publish(ctx context.Context, l load) error {
	planned, first := s.recorder.add(l.delays, l.role)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.watch(ctx, cancel)

	sched := schedule{start: s.recorder.now(), rate: l.rate}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range max(1, min(l.workers, len(planned))) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(planned) || !s.waitUntil(ctx, sched.at(i)) {
					return
				}
				err := s.publishOne(ctx, l, planned[i], first+i, sched.at(i))
				if err != nil && s.recorder.failed.Load() > maxFailures {
					cancel(fmt.Errorf("too many messages failed: %w", err))
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func (s *Trial) publishOne(ctx context.Context, l load, e *entry, id int, intended time.Duration) error {
	e.Sent = s.recorder.now()
	e.Intended = intended
	if l.delayAt != nil {
		e.Delay = l.delayAt(e.Sent)
	}
	if intended == 0 || l.delayAt != nil {
		e.Intended = e.Sent
	}
	if l.role.awaited() {
		s.recorder.due(e.Due())
	}
	err := s.delayer.Publish(ctx, "", s.destination.queue, e.Delay, amqp091.Publishing{
		MessageId:    strconv.Itoa(id),
		DeliveryMode: amqp091.Persistent,
		Body:         s.body,
	})
	s.recorder.returned(e, err)
	return err
}

// watch gives up on a load that makes no progress: a Delayer may wait for a lost broker forever.
func (s *Trial) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(stall / 10)
	defer ticker.Stop()
	seen, since := int64(-1), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := s.recorder.published.Load() + s.recorder.failed.Load(); now != seen {
			seen, since = now, time.Now()
		} else if time.Since(since) > stall {
			cancel(errStalled)
		}
	}
}

// waitUntil waits for a time of the recorder's clock; false if ctx ended first.
func (s *Trial) waitUntil(ctx context.Context, at time.Duration) bool {
	wait := at - s.recorder.now()
	if at == 0 || wait <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// A schedule says when each message of a paced load is to be published.
type schedule struct {
	start time.Duration
	rate  float64
}

// at is 0 for a load without a rate.
func (s schedule) at(i int) time.Duration {
	if s.rate <= 0 {
		return 0
	}
	return s.start + time.Duration(float64(i)/s.rate*float64(time.Second))
}
