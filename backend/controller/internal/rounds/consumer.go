package rounds

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

const (
	mostHeld      = 8192     // messages in memory at a time
	mostHeldBytes = 64 << 20 // and their bodies

	// prefetch leaves room for messages that pass through while the memory is full.
	prefetch = mostHeld + 1024

	// postponedFor is about how long a foreign message waits before it is tried again.
	postponedFor = 5 * time.Second
)

// A consumer takes the messages of one channel, until the channel is lost. The broker then
// redelivers what is not acknowledged. One goroutine takes, holds and releases; each publish has
// its own, since other messages are behind.
type consumer struct {
	at      *controller
	alive   context.Context // ends when nothing can be acknowledged any more
	abandon context.CancelCauseFunc
	held    *memory[stamp.Message]
	tenure  *tenure // nil before the first message
	alert   *liveness
	working sync.WaitGroup // messages that are being published
}

// serve takes messages of the intake until the channel is lost or the controller closes.
func (c *controller) serve(alive context.Context, messages <-chan amqp091.Delivery) {
	s := &consumer{at: c, held: newMemory[stamp.Message](mostHeld, mostHeldBytes), alert: newLiveness()}
	s.alive, s.abandon = context.WithCancelCause(alive)
	s.take(messages)
	s.forget()
	defer time.AfterFunc(settle.DrainTimeout, func() { s.abandon(context.DeadlineExceeded) }).Stop()
	s.working.Wait()
	s.abandon(nil)
}

// take returns when no more messages come.
func (c *consumer) take(messages <-chan amqp091.Delivery) {
	due, look := time.NewTimer(time.Hour), time.NewTicker(pingEvery)
	defer due.Stop()
	defer look.Stop()
	for {
		due.Reset(c.release())
		select {
		case d, ok := <-messages:
			if !ok {
				return
			}
			c.alert.touch()
			c.handle(&d)
		case <-due.C:
		case err := <-c.alert.pinged:
			c.alert.confirm(err)
		case <-look.C:
			if c.lost() {
				return
			}
		case <-c.alive.Done():
			return
		case <-c.at.ctx.Done():
			return
		}
	}
}

// release delivers what is due and returns how long the next message has.
func (c *consumer) release() time.Duration {
	for {
		m, size, ok := c.held.take(time.Now())
		if !ok {
			break
		}
		c.changed(-1, -size)
		c.work(func() { c.deliver(m) })
	}
	if next, ok := c.held.next(); ok {
		return time.Until(next)
	}
	return time.Hour
}

// handle sends a message on, holds or delivers it. It never blocks.
func (c *consumer) handle(d *amqp091.Delivery) {
	if c.tenure == nil {
		c.tenure = newTenure(c.at.pulse, func() error { return roundTrip(d.Acknowledger) })
	}
	m, err := stamp.ReadMessage(d)
	switch {
	case err == nil:
		c.route(m)
	case isPing(d):
		acknowledge(d)
	default:
		c.work(func() { c.keep(d, err) })
	}
}

// roundTrip asks the broker something on a channel.
func roundTrip(channel amqp091.Acknowledger) error {
	ch, ok := channel.(*amqp091.Channel)
	if !ok {
		return nil
	}
	const noSize, wholeChannel = 0, false
	return ch.Qos(prefetch, noSize, wholeChannel) // for new consumers, of which there will be none
}

// route decides where a message waits next.
func (c *consumer) route(m stamp.Message) {
	now, expired := time.Now(), stamp.Expired(m.Delivery.Headers)
	remaining := m.Stamp.Remaining(now, expired)
	if early := remaining - m.Stamp.Left; expired && early > time.Second {
		c.at.session.Warn("a message expired too early and waits again: is there a policy with message-ttl?",
			"message", m.Envelope.ID, "early", early.Round(time.Millisecond))
	}
	level := c.at.wheel.schedule.next(remaining)
	if level == inMemory {
		size := len(m.Delivery.Body)
		if c.held.add(now.Add(remaining), size, m) {
			c.changed(1, size)
			return
		}
		level = 0
	}
	if level == deliver {
		c.work(func() { c.deliver(m) })
		return
	}
	c.work(func() { c.forward(m, level, now, remaining) })
}

// deliver sends a message that is due to its destination. If the destination refuses it, as a full
// queue may, or no queue takes it, it goes through a queue and is tried again. So do those behind
// it, untried, while the destination is left alone: messages for one must not delay those for
// others.
func (c *consumer) deliver(m stamp.Message) {
	t := c.at.pauses.begin(m, time.Now())
	wait := t.wait
	if wait == 0 {
		err := c.offer(m.Delivery, func() error { return c.at.session.Settler.Deliver(c.alive, m, "") })
		wait = c.at.pauses.end(t, err, time.Now())
	}
	if wait > 0 {
		c.forward(m, c.at.wheel.schedule.level(wait), time.Now(), 0)
	}
}

// keep moves a foreign message to the unroutable queue. While that refuses it, it waits unchanged.
func (c *consumer) keep(d *amqp091.Delivery, why error) {
	c.at.session.Warn("the controller got a foreign message; it is kept as unroutable",
		message.Attr(d), "error", why, "routing_key", d.RoutingKey, "queue", c.at.session.Settler.Stage.Unroutable())
	if !settle.Refused(c.offer(d, func() error { return c.at.session.Settler.Keep(c.alive, d) })) {
		return
	}
	again := message.Again(d, c.at.session.Settler.User)
	again.Expiration = ""
	delete(again.Headers, "x-death") // or the broker may see a cycle, and drop the message
	c.wait(d, c.at.wheel.schedule.level(postponedFor), again)
}

// forward sends a message to the queue of a level.
func (c *consumer) forward(m stamp.Message, level int, now time.Time, remaining time.Duration) {
	next := m.Stamp.Next(now, remaining, c.at.wheel.schedule.ttl(level))
	c.wait(m.Delivery, level, m.Wait(c.at.session.Settler.User, next))
}

// wait puts a message into the queue of a level, and acknowledges it.
func (c *consumer) wait(d *amqp091.Delivery, level int, msg amqp091.Publishing) {
	to := broker.Publishing{Exchange: c.at.wheel.names.wait(level), Key: d.RoutingKey, Message: msg}
	if c.retry(d, func() error { return c.at.session.Settler.Publish(c.alive, to) }) != nil {
		return
	}
	acknowledge(d)
	if round := c.at.session.Observer.Round; round != nil {
		round(delayer.RoundEvent{Backend: c.at.session.Backend, Wait: c.at.wheel.schedule.ttl(level)})
	}
}

// offer publishes a message until it is taken, and acknowledges it, or until it is refused, which
// is the error then.
func (c *consumer) offer(d *amqp091.Delivery, publish func() error) error {
	var refused error
	err := c.retry(d, func() error {
		err := publish()
		if settle.Refused(err) {
			refused, err = err, nil
		}
		return err
	})
	if refused != nil {
		c.at.session.Warn("no queue accepts a message; the controller tries again in some seconds",
			"message", d.Headers[delayer.Header], "routing_key", d.RoutingKey, "error", refused)
		return refused
	}
	if err == nil {
		acknowledge(d)
	}
	return err
}

const (
	firstPause   = 100 * time.Millisecond // after a message could not be published
	longestPause = 5 * time.Second
)

// retry calls publish until it succeeds or the consumer ends.
func (c *consumer) retry(d *amqp091.Delivery, publish func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.at.session.Keeper.Ensure(c.alive)
		if err == nil {
			err = c.ours()
		}
		if err == nil {
			err = publish()
		}
		if err == nil || c.alive.Err() != nil {
			return err
		}
		c.at.session.Warn("the controller cannot publish a message; it tries again",
			"message", d.Headers[delayer.Header], "within", pause, "error", err)
		select {
		case <-c.alive.Done():
			return err
		case <-c.at.ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// ours returns an error, and ends the consumer, if another may have its messages by now.
func (c *consumer) ours() error {
	err := c.tenure.confirm()
	if err != nil {
		c.abandon(err)
	}
	return err
}

// acknowledge removes a message from the intake: it is stored elsewhere.
func acknowledge(d *amqp091.Delivery) { _ = d.Ack(false) } // fails only if the channel is lost

// forget says that what is held leaves the memory: the broker redelivers it.
func (c *consumer) forget() { c.changed(-len(c.held.items), -c.held.bytes) }

// changed says by how much the memory has changed.
func (c *consumer) changed(messages, bytes int) {
	if held := c.at.session.Observer.Held; held != nil && messages != 0 {
		held(delayer.HeldEvent{Backend: c.at.session.Backend, Messages: messages, Bytes: bytes})
	}
}

// work runs f beside others, and keeps the consumer open until it is done.
func (c *consumer) work(f func()) { c.working.Go(f) }
