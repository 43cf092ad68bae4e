package controller

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/observe"
)

// A consumer is one channel that consumes the intake, until the channel is lost. The broker then
// redelivers what the consumer has not acknowledged.
type consumer struct {
	*runner
	alive   context.Context // ends when nothing can be acknowledged any more
	holder  *holder
	working sync.WaitGroup // messages that are being published
	foreign sync.Mutex     // held while a foreign message is published
}

// serve takes messages until the channel is lost or the runner closes.
func (r *runner) serve(alive context.Context, messages <-chan amqp091.Delivery) {
	alive, abandon := context.WithCancelCause(alive)
	c := &consumer{runner: r, alive: alive, holder: newHolder(mostHeld, mostHeldBytes)}
	holding, stopHolding := context.WithCancel(alive)
	defer context.AfterFunc(r.ctx, stopHolding)()
	held := make(chan struct{})
	go func() {
		defer close(held)
		c.holder.run(holding)
	}()
	c.take(messages)
	stopHolding()
	<-held
	c.changed(c.holder.drop())
	defer time.AfterFunc(drainTimeout, func() { abandon(context.DeadlineExceeded) }).Stop()
	c.working.Wait()
	abandon(nil)
}

// take returns when no more messages come.
func (c *consumer) take(messages <-chan amqp091.Delivery) {
	liveness, tick := newLiveness(), time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case d, ok := <-messages:
			if !ok {
				return
			}
			liveness.touch()
			c.handle(&d)
		case <-tick.C:
			switch {
			case c.holder.holds():
				liveness.touch() // a full memory stops deliveries
			case liveness.lost():
				c.log.Warn("the controller's consumer gets no messages although its queue has some; it consumes again",
					"queue", c.blueprint.names.intake())
				return
			case liveness.idle():
				c.work(func() { c.ping(liveness) })
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// An incoming message has come out of the intake.
type incoming struct {
	*amqp091.Delivery
	envelope message.Envelope
	stamp    stamp
}

// read parses the headers of a message. The error says why the message is foreign.
func read(d *amqp091.Delivery) (incoming, error) {
	stamp, err := readStamp(d.Headers)
	if err != nil {
		return incoming{}, err
	}
	envelope, err := delayer.ParseHeader(d.Headers)
	return incoming{d, envelope, stamp}, err
}

// handle never blocks: other messages are behind this one.
func (c *consumer) handle(d *amqp091.Delivery) {
	m, err := read(d)
	switch {
	case err == nil:
		c.route(m)
	case isPing(d):
		c.work(func() { c.acknowledge(d, nil) })
	default:
		c.work(func() { c.keep(d, err) })
	}
}

// changed says by how much the memory has changed.
func (c *consumer) changed(messages, bytes int) {
	if messages != 0 {
		observe.Tell(c.observer.Held, delayer.HeldEvent{Backend: Name, Messages: messages, Bytes: bytes})
	}
}

// work runs f beside others, and keeps the consumer open until it is done.
func (c *consumer) work(f func()) {
	c.working.Add(1)
	go func() {
		defer c.working.Done()
		f()
	}()
}

// route sends a message to the next queue or to its destination, or holds it.
func (c *consumer) route(m incoming) {
	now, expired := time.Now(), expired(m.Headers)
	remaining := m.stamp.remaining(now, expired)
	if early := remaining - m.stamp.left; expired && early > time.Second {
		c.warn("a message expired too early and waits again: is there a policy with message-ttl?",
			"message", m.envelope.ID, "early", early.Round(time.Millisecond))
	}
	level := c.blueprint.schedule.next(remaining)
	if level == hold {
		release := func() {
			c.changed(-1, -len(m.Body))
			c.work(func() { c.deliver(m) })
		}
		if c.holder.add(held{due: now.Add(remaining), size: len(m.Body), release: release}) {
			c.changed(1, len(m.Body))
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
