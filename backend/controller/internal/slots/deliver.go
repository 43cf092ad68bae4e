package slots

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// What is due is submitted in the order in which it was posted, and a goroutine for each message waits
// for its confirm. What needs more than one step, because something is missing, is published beside.

// attemptFor is how long one attempt to publish may take.
const attemptFor = 5 * time.Minute

// delivering is the part of a tenure that publishes to destinations. The tenure's mu guards it.
type delivering struct {
	flying       sync.WaitGroup  // messages that are being published,
	publish      context.Context // until this ends
	takes        map[string]bool // destinations that have taken a message
	shared       lane            // to those, over one channel
	destinations map[string]*destination
}

func newDelivering() delivering {
	return delivering{takes: map[string]bool{}, destinations: map[string]*destination{}}
}

// A destination has messages under way, or some that wait for that. They share the channel with those
// to other destinations, or have one of their own; they change from one to the other only while none
// is under way.
type destination struct {
	sharing, apart int
	own            lane
}

// A lane submits messages one behind the other.
type lane struct {
	posted     []posted
	submitting bool
}

// A posted message is one that is being delivered.
type posted struct {
	msg    broker.Publishing
	item   *leader.Item
	of     stamp.Message
	shares bool // a channel with those to other destinations
}

// deliver posts a message that is due. The caller holds mu.
func (t *tenure) deliver(it *leader.Item) {
	m, err := due(it)
	if err != nil { // it was forged: nobody knows where it is to go
		t.keepRecord(it, err)
		return
	}
	p := posted{item: it, of: m}
	if t.session.Keeper.Doubted() {
		clear(t.takes) // the channel may be another
		t.byStage(p)
		return
	}
	p.msg = t.session.Settler.Delivery(m)
	t.flying.Add(1)
	d := t.destinations[it.To]
	if d == nil {
		d = &destination{}
		t.destinations[it.To] = d
	}
	shared := p.msg
	shared.Direct = shared.Direct && shared.Exchange != "" // the default exchange is always there
	free := !t.session.Publisher.Alone(&shared)
	if p.shares = free && t.takes[it.To] && d.apart == 0 && d.sharing < mostSharing; p.shares {
		p.msg = shared
		d.sharing++
		t.shared.posted = append(t.shared.posted, p)
		t.submit(&t.shared)
		return
	}
	p.msg.Apart = it.To
	d.apart++
	d.own.posted = append(d.own.posted, p)
	if d.sharing == 0 {
		t.submit(&d.own)
	}
}

// submit submits what is posted in a lane. The caller holds mu.
func (t *tenure) submit(l *lane) {
	if l.submitting || len(l.posted) == 0 {
		return
	}
	l.submitting = true
	go func() {
		for {
			t.mu.Lock()
			todo := l.posted
			l.posted, l.submitting = nil, len(todo) > 0
			t.mu.Unlock()
			if len(todo) == 0 {
				return
			}
			for _, p := range todo {
				within, cancel := context.WithTimeout(t.publish, attemptFor)
				pending, err := t.session.Publisher.Submit(within, p.msg)
				if err != nil {
					cancel()
					t.landed(p, err)
					continue
				}
				go func() {
					defer cancel()
					t.landed(p, pending.Wait(within))
				}()
			}
		}
	}()
}

// byStage delivers a message in steps.
func (t *tenure) byStage(p posted) {
	t.beside(func(ctx context.Context) error { return t.session.Settler.Deliver(ctx, p.of, p.item.To) },
		func(err error) { t.happened(leader.Sent{Item: p.item, Outcome: t.outcome(p.item, err)}) })
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
	if d.sharing == 0 {
		t.submit(&d.own)
	}
	if d.sharing+d.apart == 0 {
		delete(t.destinations, to)
	}
	if settle.Undelivered(err) && t.ctx.Err() == nil {
		t.byStage(p)
		return
	}
	if errors.Is(err, broker.ErrReturned) && t.ctx.Err() == nil { // the topology may be gone, or this is its end
		t.session.Keeper.Doubt() // the next attempt declares it
	}
	t.answered(to, err)
	t.session.Settler.Tell(p.of, false, err)
	if err == nil {
		message.Recycle(p.msg.Message) // otherwise it may still be being written
	}
	t.step(leader.Sent{Item: p.item, Outcome: t.outcome(p.item, err)})
}

const (
	// mostSharing is how many messages of a destination share the channel. If a quorum queue has 32
	// of one channel that it has not stored (quorum_commands_soft_limit), RabbitMQ soon stops
	// reading that channel's connection, whoever its messages are for. Where there are more, they go
	// over a channel of the destination's own.
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

// outcome is what an error means to the leader.
func (t *tenure) outcome(it *leader.Item, err error) leader.Outcome {
	switch {
	case err == nil:
		return leader.Stored
	case settle.Refused(err):
		t.session.Warn("no queue accepts a message; the controller tries again in some seconds", "message", it.ID, "error", err)
		return leader.Refused
	case t.ctx.Err() == nil:
		t.session.Warn("the controller cannot publish a message; it tries again", "message", it.ID, "error", err)
	}
	return leader.Unknown
}

// beside publishes something in the background.
func (t *tenure) beside(publish func(ctx context.Context) error, done func(error)) {
	t.flying.Go(func() {
		ctx, cancel := context.WithTimeout(t.publish, attemptFor)
		defer cancel()
		err := t.session.Keeper.Ensure(ctx)
		if err == nil {
			err = publish(ctx)
		}
		done(err)
	})
}

// keep keeps what is no bundle with the unroutable messages, as it came.
func (t *tenure) keep(it *leader.Item) {
	f := it.Raw.(foreign)
	d := f.delivery
	t.session.Warn("the controller got a foreign message; it is kept as unroutable",
		message.Attr(d), "error", f.why, "routing_key", d.RoutingKey, "queue", t.session.Settler.Stage.Unroutable())
	t.keepAs(it, d)
}

// keepRecord keeps a record that no Delayer has written.
func (t *tenure) keepRecord(it *leader.Item, why error) {
	t.session.Warn("the controller got a foreign message; it is kept as unroutable",
		"message", it.ID, "error", why, "queue", t.session.Settler.Stage.Unroutable())
	t.keepAs(it, &amqp091.Delivery{MessageId: it.ID, DeliveryMode: amqp091.Persistent, Body: it.Payload})
}

func (t *tenure) keepAs(it *leader.Item, d *amqp091.Delivery) {
	t.beside(func(ctx context.Context) error { return t.session.Settler.Keep(ctx, d) },
		func(err error) { t.happened(leader.Sent{Item: it, Outcome: t.outcome(it, err)}) })
}

// drain waits for so long for what is being delivered, and then abandons it.
func (t *tenure) drain(within time.Duration, abandon func()) {
	drained := make(chan struct{})
	go func() { t.flying.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(within):
	}
	abandon()
	<-drained
}
