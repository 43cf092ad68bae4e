// Package slots is the controller's wheel of slots on a broker: its log, its slots, publishing to the
// log, and the shell that runs the machine of package leader. What users need to know of it is on the page of
// package controller; docs/design.md has the protocol.
package slots

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// A Wheel is a wheel of slots under a prefix.
type Wheel struct {
	rings   leader.Rings
	names   names
	tickets tickets
	memory  int // bytes of messages that a controller holds
}

// backend is what errors call it.
const backend = "controller"

// New returns the wheel of a vhost and a prefix, whose controllers hold so many bytes of messages in
// memory.
func New(vhost, prefix string, memory int) *Wheel {
	rings := leader.Default()
	tickets := newTickets(vhost, prefix, rings.String())
	return &Wheel{rings: rings, names: names{prefix, rings}, tickets: tickets, memory: memory}
}

// Limits returns what controllers of this wheel can do.
func (w *Wheel) Limits() delayer.Limits {
	l := settle.Limits(true)
	l.Ordered, l.CancelBefore = true, leader.AcceptedBefore
	return l
}

// Open opens a Delayer that learns the broker's time, with a controller beside it if runs is true.
// After an error nothing is left open.
func (w *Wheel) Open(ctx context.Context, s engine.Settings, runs bool) (delayer.Delayer, error) {
	c, err := engine.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	process := rand.Text()
	how := &strategy{wheel: w}
	e, err := c.Start(ctx, how)
	if err != nil {
		return nil, err
	}
	how.log = newPublisher(e.Publisher(), w.names.enter(), process)
	if how.clock, err = openClock(ctx, w, s, e); err != nil {
		_ = e.Close()
		return nil, err
	}
	stop := how.clock.close
	if runs {
		at, err := start(ctx, w, s, e, how.clock, process)
		if err != nil {
			how.clock.close()
			_ = e.Close()
			return nil, err
		}
		stop = func() { how.clock.close(); at.close() } // what is known of the time serves for a minute
	}
	return &Delayer{Engine: e, wheel: w, clock: how.clock, log: how.log, stop: sync.OnceFunc(stop)}, nil
}

// A Delayer publishes to slots.
type Delayer struct {
	*engine.Engine
	wheel *Wheel
	clock *clock
	log   *publisher
	stop  func() // the clock and the controller; returns, to all who call it, once they have stopped
}

var _ delayer.Delayer = (*Delayer)(nil)

// Close implements [delayer.Delayer].
func (d *Delayer) Close() error {
	var stopping sync.WaitGroup
	stopping.Go(d.stop) // both may wait for the broker; at the same time they take no longer than one
	defer stopping.Wait()
	d.log.close()
	return d.Engine.Close()
}
