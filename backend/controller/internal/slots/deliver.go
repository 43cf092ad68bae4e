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
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// What is due is posted: one goroutine submits it, in the order in which it was posted, and another
// one for each message waits for its confirm. What needs more than one step, because something is
// missing, is published in a goroutine of its own.

// attemptFor is how long one attempt to publish may take.
const attemptFor = 5 * time.Minute

// delivering is the part of a tenure that publishes to destinations. The tenure's mu guards it.
type delivering struct {
	flying  sync.WaitGroup  // messages that are being published,
	publish context.Context // until this ends
	posted  []posted        // to be submitted
	more    pace.Signal     // something is posted
	takes   map[string]bool // destinations that have taken a message
	lanes   map[string]*lane
}

func newDelivering() delivering {
	return delivering{more: pace.NewSignal(), takes: map[string]bool{}, lanes: map[string]*lane{}}
}

// A lane keeps the order of the messages of a destination. They share the channel with those to other
// destinations, or have one of their own; they change from one to the other only while none is under
// way.
type lane struct {
	shared, apart int // messages under way
	waiting       []posted
	submitting    bool
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
	l := t.lanes[it.To]
	if l == nil {
		l = &lane{}
		t.lanes[it.To] = l
	}
	shared := p.msg
	shared.Direct = shared.Direct && shared.Exchange != "" // the default exchange is always there
	free := !t.session.Publisher.Alone(&shared)
	if p.shares = free && t.takes[it.To] && l.apart == 0 && l.shared < mostSharing && len(l.waiting) == 0; p.shares {
		l.shared++
		p.msg = shared
		t.posted = append(t.posted, p)
		t.more.Set()
		return
	}
	p.msg.Apart = it.To
	l.waiting = append(l.waiting, p)
	t.goApart(l)
}

// goApart submits what waits in a lane, one message behind the other, unless some of that destination
// are under way on the channel that it shares. The caller holds mu.
func (t *tenure) goApart(l *lane) {
	if l.submitting || l.shared > 0 || len(l.waiting) == 0 {
		return
	}
	l.submitting = true
	go func() {
		for {
			t.mu.Lock()
			if l.submitting = len(l.waiting) > 0; !l.submitting {
				t.mu.Unlock()
				return
			}
			p := l.waiting[0]
			l.waiting = l.waiting[1:]
			l.apart++
			t.mu.Unlock()
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
	}()
}

// byStage delivers a message in steps.
func (t *tenure) byStage(p posted) {
	t.beside(func(ctx context.Context) error { return t.session.Settler.Deliver(ctx, p.of, p.item.To) },
		func(err error) { t.happened(leader.Sent{Item: p.item, Outcome: t.outcome(p.item, err)}) })
}

// submit submits what is posted, until publish ends. What is posted by then fails.
func (t *tenure) submit() {
	publisher := t.session.Publisher
	var latest context.Context // of all that is submitted in a minute: one for each would cost more
	var since time.Time
	for {
		if now := time.Now(); now.Sub(since) > time.Minute {
			ctx, cancel := context.WithTimeout(t.publish, attemptFor)
			context.AfterFunc(ctx, cancel)
			latest, since = ctx, now
		}
		within := latest
		ended := t.publish.Err() != nil
		t.mu.Lock()
		todo := t.posted
		t.posted = nil
		t.mu.Unlock()
		for _, p := range todo {
			if publisher.Alone(&p.msg) {
				go func() { t.landed(p, publisher.Publish(within, p.msg)) }()
				continue
			}
			pending, err := publisher.Submit(t.publish, p.msg)
			if err != nil {
				t.landed(p, err)
				continue
			}
			go func() { t.landed(p, pending.Wait(within)) }()
		}
		if len(todo) > 0 {
			continue
		}
		if ended {
			return
		}
		select {
		case <-t.more:
		case <-t.publish.Done():
		}
	}
}

// landed tells the leader what became of a message that was posted.
func (t *tenure) landed(p posted, err error) {
	defer t.flying.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	to := p.item.To
	l := t.lanes[to]
	if p.shares {
		l.shared--
	} else {
		l.apart--
	}
	t.goApart(l)
	if l.shared+l.apart == 0 && !l.submitting {
		delete(t.lanes, to)
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
