// Package slots is the controller's wheel of slots on a broker: its log, its slots, publishing to the
// log, and the shell that runs the machine of package leader. What users need to know of it is on the page of
// package controller; docs/design.md has the protocol.
package slots

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// A Wheel is a wheel of slots under a prefix.
type Wheel struct {
	prefix  string
	rings   leader.Rings
	tickets tickets
	memory  int // bytes of messages that a controller holds
}

// backend is what errors call it.
const backend = "controller"

// New returns the wheel of a vhost and a prefix, whose controllers hold so many bytes of messages in
// memory.
func New(vhost, prefix string, memory int) *Wheel {
	rings := leader.Default()
	return &Wheel{prefix: prefix, rings: rings, tickets: newTickets(vhost, prefix, rings.String()), memory: memory}
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
	d := &Delayer{wheel: w}
	if d.Engine, err = c.Start(ctx, d); err != nil {
		return nil, err
	}
	shared := w.shared()
	shared.Restore = d.Keeper().Redeclare
	d.clock = newClock(brokertime.Config{
		Backend: s.Backend, Prefix: s.Prefix, Logger: s.BrokerOptions("").Slog(), Control: d.Control(), Shared: shared, Publish: d.Publisher().PublishDirect,
	})
	process := rand.Text()
	d.log = newPublisher(d.Publisher(), w.enter(), process)
	stop := d.clock.close
	err = d.clock.learn(ctx)
	if err == nil && runs {
		var at *controller
		if at, err = start(ctx, s, d, process); err == nil {
			stop = func() { d.clock.close(); at.close() } // what is known of the time serves for a minute
		}
	}
	d.stop = sync.OnceFunc(stop)
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// A Delayer publishes to slots. It is the strategy of its engine: it implements [engine.Strategy],
// [engine.Submitter] and [engine.Reckoner].
type Delayer struct {
	*engine.Engine
	wheel  *Wheel
	clock  *clock
	steady brokertime.Steady
	log    *publisher
	stop   func() // the clock and the controller; returns, to all who call it, once they have stopped
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

// Limits implements [engine.Strategy] and [delayer.Delayer].
func (d *Delayer) Limits() delayer.Limits { return d.wheel.Limits() }

// Plan implements [engine.Strategy].
func (d *Delayer) Plan() topology.Plan { return d.wheel.Plan() }

// growth: a message waits in the body of another, and may be published to the delivery stage.
var growth = message.Growth{Keys: 1}

// Growth implements [engine.Strategy].
func (d *Delayer) Growth() message.Growth { return growth }

// Enter implements [engine.Strategy].
func (d *Delayer) Enter(context.Context, engine.Wait) (engine.Entry, error) {
	return engine.Entry{}, errors.ErrUnsupported
}

// Submit implements [engine.Submitter].
func (d *Delayer) Submit(ctx context.Context, m engine.Wait, msg amqp091.Publishing) (engine.Pending, error) {
	now := d.clock.now()
	r, _ := ctx.Value(receiptKey{}).(*receipt) // nil for an ordinary Publish
	if r != nil && !now.Known {
		return nil, &delayer.Error{Op: "schedule", Backend: backend, Kind: delayer.ErrNotSent, Cause: errNoTime}
	}
	// The engine took the time before it bound the destination: binding is part of the delay.
	if now.Known {
		known, at := time.Duration(now.Clock.Latest.UnixNano())-now.Mono, settle.Reading(m.Due.Add(-m.Delay))
		now.Clock.Latest = now.Clock.Latest.Add(d.steady.Ahead(known, at) - known)
	}
	due, remaining, own := leader.Enter(now, max(0, until(m.Due, now)))
	if r != nil && r.due != 0 {
		due, remaining, own = r.due, 0, 0
	}
	rec, err := record(m, msg, due)
	if err != nil {
		return nil, &delayer.Error{Op: "publish", Backend: backend, Kind: delayer.ErrInvalid, Cause: err}
	}
	rec.Due, rec.Left, rec.Own, rec.Ticket = due, remaining, own, r != nil
	if r != nil {
		r.ticket = ticket{id: rec.ID, due: due}
	}
	entry, err := d.log.submit(ctx, rec)
	if err != nil {
		return nil, err
	}
	if r != nil {
		r.submitted()
	}
	return entry, nil
}

// Remaining implements [engine.Reckoner]: no message that waits is misrouted by the broker.
func (d *Delayer) Remaining(headers amqp091.Table) (time.Duration, bool) {
	return delivery.WhenDue(headers)
}
