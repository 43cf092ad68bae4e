package slots

import (
	"context"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// What is due is submitted in the order in which it was posted, and a goroutine for each message waits
// for its confirm. What needs more than one step, because something is missing, is published beside.

// attemptFor is how long one attempt to publish may take.
const attemptFor = 5 * time.Minute

// A destination has messages under way, or some that wait for that. They share the channel with those
// to other destinations, or have one of their own; they change from one to the other only while none
// is under way. A channel for each was measured: with 64 queues it costs the broker 14 % more and this
// process 23 %.
type destination struct {
	sharing, apart int
	waiting        []func()
	own            line
}

// A posted message is one that is being delivered.
type posted struct {
	msg    broker.Publishing
	item   *leader.Item
	of     settle.Message
	shares bool // a channel with those to other destinations
}

// deliver posts a message that is due. The caller holds mu.
func (t *tenure) deliver(it *leader.Item) {
	keep := func(d *amqp091.Delivery, why error) {
		t.beside(it, func(ctx context.Context) error { return t.session.Keep(ctx, d, why) })
	}
	if raw, is := it.Raw.(foreign); is {
		keep(raw.delivery, raw.why)
		return
	}
	frame, _, _ := t.session.Control.Conn().Server()
	m, err := due(it, frame)
	if err != nil { // it was forged, or no longer fits into a frame: it cannot be published
		keep(&amqp091.Delivery{MessageId: it.ID, DeliveryMode: amqp091.Persistent, Body: it.Payload}, err)
		return
	}
	p := posted{item: it, of: m}
	doubted, opened := t.session.Keeper.Doubted(), t.session.Publisher.Opened()
	if doubted || opened != t.opened {
		t.opened = opened
		clear(t.takes) // the channel may be another
	}
	if doubted {
		t.byStage(p)
		return
	}
	p.msg = t.session.Delivery(m)
	t.flying.Add(1)
	d := t.destinations[it.To]
	if d == nil {
		d = &destination{}
		t.destinations[it.To] = d
	}
	shared := p.msg
	shared.Direct = shared.Direct && shared.Exchange != "" // the default exchange is always there
	free := !t.session.Publisher.Alone(&shared)
	room := d.sharing < mostSharing && !t.session.Publisher.Crowded() // those that are silent keep their places
	if p.shares = free && t.takes[it.To] && d.apart == 0 && room; p.shares {
		p.msg = shared
		d.sharing++
		t.follow(&t.shared, func() { t.submit(p) })
		return
	}
	p.msg.Apart = it.To
	d.apart++
	d.waiting = append(d.waiting, func() { t.submit(p) })
	t.goApart(d)
}

// goApart submits what waits for that, unless some of that destination is under way on the channel
// that it shares. The caller holds mu.
func (t *tenure) goApart(d *destination) {
	if d.sharing == 0 {
		t.follow(&d.own, d.waiting...)
		d.waiting = nil
	}
}

// submit returns once a message comes before those that are submitted after it.
func (t *tenure) submit(p posted) {
	within, cancel := context.WithTimeout(t.publish, attemptFor)
	pending, err := t.session.Publisher.Submit(within, p.msg)
	if err != nil {
		cancel()
		t.landed(p, err)
		return
	}
	go func() {
		defer cancel()
		t.landed(p, pending.Wait(within))
	}()
}

// byStage delivers a message in steps.
func (t *tenure) byStage(p posted) {
	t.beside(p.item, func(ctx context.Context) error { return t.session.Deliver(ctx, p.of, p.item.To) })
}

// landed tells the leader what became of a message that was posted.
func (t *tenure) landed(p posted, err error) {
	defer t.flying.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	to := p.item.To
	d := t.destinations[to]
	if p.shares {
		d.sharing--
	} else {
		d.apart--
	}
	t.goApart(d)
	if d.sharing+d.apart == 0 {
		delete(t.destinations, to)
	}
	if settle.Undelivered(err) && t.ctx.Err() == nil {
		t.byStage(p)
		return
	}
	t.answered(to, err)
	t.session.Tell(p.of, false, err)
	t.warn(p.item, err)
	if err == nil {
		message.Recycle(p.msg.Message) // otherwise it may still be being written
	}
	t.step(leader.Sent{Item: p.item, Stored: err == nil})
}

const (
	// mostSharing is how many messages of a destination share the channel. If a quorum queue has 32
	// of one channel that it has not stored (quorum_commands_soft_limit), RabbitMQ soon stops
	// reading that channel's connection, whoever its messages are for.
	mostSharing = 30
	// mostAnswers is how many destinations are known to answer. Beyond that all prove it again.
	mostAnswers = 10_000
)

// answered notes whether a destination answers. One that has not, or has refused a message, has a
// channel of its own: see [broker.Publishing].
func (t *tenure) answered(to string, err error) {
	if err != nil {
		delete(t.takes, to)
		return
	}
	if len(t.takes) == mostAnswers {
		clear(t.takes)
	}
	t.takes[to] = true
}

// warn says why a message was not delivered.
func (t *tenure) warn(it *leader.Item, err error) {
	switch {
	case settle.Refused(err):
		t.session.Warn("no queue accepts a message; the controller tries again in some seconds", "message", it.ID, "error", err)
	case err != nil && t.ctx.Err() == nil:
		t.session.Warn("the controller cannot publish a message; it tries again", "message", it.ID, "error", err)
	}
}

// beside publishes a message in steps, in the background.
func (t *tenure) beside(it *leader.Item, publish func(ctx context.Context) error) {
	t.flying.Go(func() {
		ctx, cancel := context.WithTimeout(t.publish, attemptFor)
		defer cancel()
		err := t.session.Keeper.Ensure(ctx)
		if err == nil {
			err = publish(ctx)
		}
		t.warn(it, err)
		t.happened(leader.Sent{Item: it, Stored: err == nil})
	})
}
