// Package rounds is the controller's wheel of rounds: queues whose messages expire after 2^k ticks.
// A message comes back to a controller after each of them, and is sent to the next, or held for its
// last moments and delivered. What users need to know of it is on the page of package controller.
package rounds

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A Wheel is a wheel of rounds under a prefix. It implements [engine.Strategy] and
// [engine.Reckoner].
type Wheel struct {
	schedule schedule
	names    names
	kind     delayer.QueueType
}

// New checks the geometry: 1 to 28 levels, and a tick of whole milliseconds up to a minute. The
// broker accepts the topology of every Wheel. Errors are ErrConfig.
func New(prefix string, kind delayer.QueueType, levels int, tick time.Duration) (*Wheel, error) {
	s, err := newSchedule(levels, tick)
	if err != nil {
		return nil, err
	}
	return &Wheel{schedule: s, names: names{prefix}, kind: kind}, nil
}

// Limits returns what controllers of this wheel can do. Messages in a controller may overtake each
// other.
func (w *Wheel) Limits() delayer.Limits { return settle.Limits(w.kind == delayer.Quorum) }

// Growth implements [engine.Strategy]. The delivery keys and the user's BCC travel in a header of
// ours, beside the times of the stamp.
func (w *Wheel) Growth() message.Growth {
	const times = 165
	return message.Growth{Hops: 1, NameSize: len(w.names.wait(0)), HeaderSize: times, Carried: true}
}

// Enter implements [engine.Strategy]: it sends a message to the longest queue that ends before it
// is due, or straight to a controller.
func (w *Wheel) Enter(_ context.Context, m engine.Wait) (engine.Entry, error) {
	now := time.Now()
	// The engine took the time before it bound the destination: binding is part of the delay.
	remaining := m.Due.Add(whole(m.Delay) - m.Delay).Sub(now)
	exchange, hop := w.names.enter(), time.Duration(0)
	if level := w.schedule.next(remaining); level >= 0 {
		exchange, hop = w.names.wait(level), w.schedule.ttl(level)
	}
	first := nextStamp(now, remaining, hop)
	first.priority = m.Priority
	return engine.Entry{Exchange: exchange, Headers: first.header(m.Destinations, m.BCC), Ordered: true}, nil
}

// Remaining implements [engine.Reckoner]. A misrouted message with a stamp was between two waiting
// queues. One without a stamp was published when it was due.
func (w *Wheel) Remaining(headers amqp091.Table) (time.Duration, bool) {
	if _, stamped := headers[message.Stamp]; !stamped {
		return delivery.WhenDue(headers)
	}
	m, err := readStamp(headers)
	if err != nil {
		return 0, false
	}
	return m.stamp.remaining(time.Now(), expired(headers)), true
}

// Open opens a Delayer, with a controller beside it if runs is true. After an error nothing is left
// open.
func (w *Wheel) Open(ctx context.Context, s engine.Settings, runs bool) (delayer.Delayer, error) {
	c, err := engine.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	e, err := c.Start(ctx, w)
	if err != nil || !runs {
		return engine.Opened(e, err)
	}
	at, err := start(ctx, w, s, e)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return &accompanied{Delayer: e, stop: sync.OnceFunc(at.close)}, nil
}

// accompanied is a Delayer beside which a controller runs.
type accompanied struct {
	delayer.Delayer
	stop func() // the controller; returns, to all who call it, once that has stopped
}

// Close implements [delayer.Delayer].
func (a *accompanied) Close() error {
	var stopping sync.WaitGroup
	stopping.Go(a.stop) // both may wait for the broker; at the same time they take no longer than one
	defer stopping.Wait()
	return a.Delayer.Close()
}
