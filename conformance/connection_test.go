package conformance_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
)

// trip is the longest time that a message takes to the broker, or its confirm back.
const trip = 400 * time.Microsecond

// A connection is a Delayer of package delayertest behind a network.
type connection struct {
	*delayertest.Delayer
	broker  *broker
	closing chan struct{}
	once    sync.Once
}

// open returns a Delayer that keeps its promises.
func (b *broker) open(context.Context) (delayer.Delayer, error) {
	return &connection{Delayer: b.delayed.Open(), broker: b, closing: make(chan struct{})}, nil
}

func (c *connection) Close() error {
	c.once.Do(func() { close(c.closing) })
	return c.Delayer.Close()
}

func (c *connection) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	return c.send(ctx, exchange, key, delay, msg, func() error { return c.Delayer.Publish(ctx, exchange, key, delay, msg) })
}

// PublishBatch publishes the messages without a delay to each destination beside all others.
func (c *connection) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	type destination struct{ exchange, queue string }
	parts := map[destination][]int{}
	for i, m := range messages {
		to := destination{m.Exchange, ""}
		switch {
		case m.Delay != 0:
			to = destination{"delayed", "delayed"}
		case m.Exchange == "":
			to.queue = m.Key
		}
		parts[to] = append(parts[to], i)
	}
	results := make([]error, len(messages))
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			for _, i := range part {
				results[i] = delayer.PublishEach(ctx, c.Publish, messages[i:i+1])[0]
			}
		})
	}
	wg.Wait()
	return results
}

func (c *connection) Schedule(ctx context.Context, m delayer.Message) (t delayer.Ticket, err error) {
	schedule := func() (err error) {
		t, err = c.Delayer.Schedule(ctx, m)
		return err
	}
	if c.broker.limits.CancelBefore == 0 {
		return "", schedule()
	}
	delay := m.Delay
	if !m.Due.IsZero() {
		delay = max(0, time.Until(m.Due))
	}
	err = c.send(ctx, m.Exchange, m.Key, delay, m.Publishing, schedule)
	return t, err
}

// send takes the message to the broker, calls store if its destination exists, and takes the
// confirm back.
func (c *connection) send(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing, store func() error) error {
	b := c.broker
	b.mu.Lock()
	up, cut := b.up, b.cut
	b.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
		return fail(delayer.ErrNotSent, ctx.Err())
	case <-c.closing:
		return fail(delayer.ErrClosed, nil)
	}
	if err := travel(ctx, cut, &b.sending, delayer.ErrNotSent); err != nil {
		return err
	}
	b.mu.Lock()
	routable := b.table.exists(exchange, key)
	var reached []*queue // now
	if delay == 0 {
		reached = b.table.reached(exchange, key, msg.Headers)
		routable = len(reached) > 0
	}
	b.mu.Unlock()
	if !routable {
		if err := b.checks.Publish(ctx, exchange, key, delay, msg); err != nil {
			return err // it would have been refused anyway
		}
		return fail(delayer.ErrUnroutable, nil)
	}
	if err := store(); err != nil {
		return err
	}
	if slices.ContainsFunc(reached, func(q *queue) bool { return q.full }) {
		return fail(delayer.ErrRefused, delayer.ErrUnknown)
	}
	for _, q := range reached {
		if !q.isStuck() {
			continue
		}
		select {
		case <-q.stuck:
		case <-ctx.Done():
			return fail(delayer.ErrUnknown, ctx.Err())
		case <-c.closing:
			return fail(delayer.ErrUnknown, nil)
		}
	}
	return travel(ctx, cut, &b.confirming, delayer.ErrUnknown)
}

// travel takes as long as a message does over a connection, and fails if that or ctx ends first.
func travel(ctx context.Context, cut <-chan struct{}, travelling *atomic.Int64, kind error) error {
	travelling.Add(1)
	defer travelling.Add(-1)
	arrived := time.NewTimer(rand.N(trip))
	defer arrived.Stop()
	select {
	case <-arrived.C:
		return nil
	case <-cut:
		return fail(kind, amqp091.ErrClosed)
	case <-ctx.Done():
		return fail(kind, ctx.Err())
	}
}

func fail(kind, cause error) error {
	return &delayer.Error{Op: "publish", Backend: "memory", Kind: kind, Cause: cause}
}
