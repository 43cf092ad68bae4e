package slots

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// What the machine wants published is posted: one goroutine submits it, in the order in which it was
// posted, and another one for each message waits for its confirm. What needs more than one step,
// because something is missing, is published in a goroutine of its own.

// attemptFor is how long one attempt to publish may take.
const attemptFor = 5 * time.Minute

// A flight is a message of the machine's that is being published.
type flight struct {
	carried *carried
	sealed  amqp091.Publishing
	to      *wheel.Turn // nil: it is delivered
	slot    string      // the queue of that turn
	shares  bool        // a channel with those to other destinations
}

type posted struct {
	msg    broker.Publishing
	flight *flight
}

// fewLater is how many messages that can wait are submitted between others.
const fewLater = 64

// post posts a message. It never waits. The caller holds mu.
func (t *tenure) post(queue *[]posted, msg broker.Publishing, f *flight) {
	t.flying.Add(1)
	if t.publish.Err() != nil { // nothing is submitted any more
		go t.landed(f, delayer.ErrClosed)
		return
	}
	*queue = append(*queue, posted{msg, f})
	t.more.Set()
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
		few := min(len(t.later), fewLater)
		todo := append(t.posted, t.later[:few]...)
		clear(t.later[:few])
		t.posted, t.later = nil, t.later[few:]
		t.mu.Unlock()
		for _, p := range todo {
			if publisher.Alone(&p.msg) {
				go func() { t.landed(p.flight, publisher.Publish(within, p.msg)) }()
				continue
			}
			pending, err := publisher.Submit(t.publish, p.msg)
			if err != nil {
				t.landed(p.flight, err)
				continue
			}
			go func() { t.landed(p.flight, pending.Wait(within)) }()
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

// Deliver implements [wheel.Shell].
func (t *tenure) Deliver(m *wheel.Message) {
	c := carriedBy(m)
	c.follow()
	if t.session.Keeper.Doubted() {
		clear(t.takes) // the channel may be another
		t.deliver(c)
		return
	}
	msg := t.session.Settler.Delivery(*c.message)
	to := c.wheel.To
	f := &flight{carried: c, sealed: msg.Message, shares: t.takes[to] && t.sharing[to] < mostSharing}
	if f.shares {
		t.sharing[to]++
		msg.Direct = msg.Direct && msg.Exchange != "" // the default exchange is always there
	} else {
		msg.Apart = to
	}
	t.post(&t.posted, msg, f)
}

func (t *tenure) deliver(c *carried) {
	t.fly(c, func(ctx context.Context) error { return t.session.Settler.Deliver(ctx, *c.message, c.wheel.To) })
}

// Move implements [wheel.Shell].
func (t *tenure) Move(m *wheel.Message, to wheel.Turn, within time.Duration) {
	c := carriedBy(m)
	c.follow()
	s := t.wheel.wheel.Slot(to)
	msg := t.toSlot(s, c.next(t.session.Settler.User))
	msg.Decided = time.Now()
	msg.Before = msg.Decided.Add(within)
	if t.session.Keeper.Doubted() {
		t.fly(c, func(ctx context.Context) error {
			err := t.session.Settler.Publish(ctx, msg)
			t.round(to, err)
			return err
		})
		return
	}
	t.post(&t.later, msg, &flight{carried: c, sealed: msg.Message, to: &to, slot: t.names.queue(s)}) // what is due goes first
}

func (t *tenure) round(to wheel.Turn, err error) {
	if round := t.session.Observer.Round; round != nil && err == nil {
		round(delayer.RoundEvent{Backend: t.session.Backend, Wait: t.wheel.wheel[to.Level].Width})
	}
}

// toSlot is a message for a slot. One that has not answered may have no majority: it has a channel
// of its own.
func (t *tenure) toSlot(s wheel.Slot, msg amqp091.Publishing) broker.Publishing {
	to := broker.Publishing{Exchange: t.names.enterSlots(), Key: t.names.slotKey(s), Sole: true, Message: msg}
	if queue := t.names.queue(s); !t.takes[queue] {
		to.Apart = queue
	}
	return to
}

// landed ends a flight.
func (t *tenure) landed(f *flight, err error) {
	defer t.flying.Done()
	t.happened(func(now wheel.Now) { t.land(now, f, err) })
}

// land says what became of a message that was posted.
func (t *tenure) land(now wheel.Now, f *flight, err error) {
	c := f.carried
	if f.shares {
		if t.sharing[c.wheel.To]--; t.sharing[c.wheel.To] == 0 {
			delete(t.sharing, c.wheel.To)
		}
	}
	if f.to == nil && settle.Undelivered(err) && t.ctx.Err() == nil {
		t.deliver(c)
		return
	}
	if errors.Is(err, broker.ErrReturned) && t.ctx.Err() == nil { // the topology may be gone, or this is its end
		t.session.Keeper.Doubt() // the next attempt declares it
	}
	if f.to == nil {
		t.answered(c.wheel.To, err)
		t.session.Settler.Tell(*c.message, false, err)
	} else {
		t.answered(f.slot, err)
		t.round(*f.to, err)
	}
	if err == nil {
		message.Recycle(f.sealed) // otherwise it may still be being written
	}
	t.stored(now, c, err)
}

const (
	// mostSharing is how many messages of a destination share the channel. If a quorum queue has 32
	// of one channel that it has not stored (quorum_commands_soft_limit), RabbitMQ soon stops
	// reading that channel's connection, whoever its messages are for. More go over a channel of
	// the destination's own.
	mostSharing = 30
	// mostAnswers is how many destinations are known to answer. Beyond that all prove it again.
	mostAnswers = 10_000
)

// answered notes whether a destination answers, or a slot. One that has not, or has refused a
// message, has a channel of its own: see [broker.Publishing].
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

// fly publishes something of a message in the background, and says what became of it.
func (t *tenure) fly(c *carried, publish func(ctx context.Context) error) {
	t.beside(attemptFor, publish, func(err error) {
		t.happened(func(now wheel.Now) { t.stored(now, c, err) })
	})
}

func (t *tenure) beside(within time.Duration, publish func(ctx context.Context) error, done func(error)) {
	t.flying.Go(func() {
		ctx, cancel := context.WithTimeout(t.publish, within)
		defer cancel()
		err := t.session.Keeper.Ensure(ctx)
		if err == nil {
			err = publish(ctx)
		}
		done(err)
	})
}

// stored tells the machine what became of a message.
func (t *tenure) stored(now wheel.Now, c *carried, err error) {
	outcome := wheel.Accepted
	switch {
	case err == nil:
	case settle.Refused(err):
		outcome = wheel.Refused
		t.session.Warn("no queue accepts a message; the controller tries again in some seconds", "message", c.wheel.ID, "error", err)
	default:
		outcome = wheel.Unknown
		if !errors.Is(err, broker.ErrStale) && t.ctx.Err() == nil {
			t.session.Warn("the controller cannot publish a message; it tries again", "message", c.wheel.ID, "error", err)
		}
	}
	t.machine.Stored(now, &c.wheel, outcome)
}

// Keep implements [wheel.Shell].
func (t *tenure) Keep(m *wheel.Message) {
	c := carriedBy(m)
	d := c.message.Delivery
	t.session.Warn("the controller got a foreign message; it is kept as unroutable",
		message.Attr(d), "error", c.foreign, "routing_key", d.RoutingKey, "queue", t.session.Settler.Stage.Unroutable())
	t.fly(c, func(ctx context.Context) error { return t.session.Settler.Keep(ctx, d) })
}

// Mark implements [wheel.Shell].
func (t *tenure) Mark(s wheel.Slot, id wheel.MarkID) {
	t.try(t.toSlot(s, small(markText(id))), func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answered(t.names.queue(s), err)
	})
}

// Summon implements [wheel.Shell]. The body matters: while an alarm lasts RabbitMQ blocks a
// connection that publishes, but only once it has read a message's header, and a message without a
// body is stored by then.
func (t *tenure) Summon() {
	wrote, msg := stamp.Reading(time.Now()), small(kindOfSummons)
	msg.Body = []byte(kindOfSummons)
	t.try(broker.Publishing{Exchange: t.names.enter(), Sole: true, Message: msg}, func(err error) {
		if err == nil {
			t.happened(func(now wheel.Now) { t.machine.Summoned(now, wrote) })
		}
	})
}

// tryFor is how long a mark or a summons is tried: the machine writes another then.
const tryFor = 5 * time.Second

// try publishes a message that may get lost. done is told what became of it.
func (t *tenure) try(msg broker.Publishing, done func(error)) {
	t.beside(tryFor, func(ctx context.Context) error { return t.session.Settler.Publish(ctx, msg) }, func(err error) {
		done(err)
		if err != nil && t.ctx.Err() == nil {
			t.session.Warn("the controller cannot write to its queues; messages with a ticket wait for that", "error", err)
		}
	})
}
