package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A consumer is one channel that consumes a queue, until the channel is lost. The broker then
// redelivers what the consumer has not acknowledged.
type consumer struct {
	*runner
	router
	alive   context.Context // ends when nothing can be acknowledged any more
	abandon context.CancelCauseFunc
	holder  *holder
	tenure  atomic.Pointer[tenure] // nil before the first message
	working sync.WaitGroup         // messages that are being published
	foreign sync.Mutex             // held while a foreign message is published
}

// A router knows how messages wait.
type router interface {
	// route sends a message on, holds or delivers it. It never blocks.
	route(c *consumer, m incoming)
	// again makes a message that is due wait for some seconds.
	again(c *consumer, m incoming)
	// keepAgain makes a foreign message wait for some seconds until it is to be kept.
	keepAgain(c *consumer, d *amqp091.Delivery, msg amqp091.Publishing, why error)
	// acknowledge removes a message from its queue.
	acknowledge(d *amqp091.Delivery)
}

func (r *runner) newConsumer(alive context.Context, how router, most, mostBytes int) *consumer {
	c := &consumer{runner: r, router: how, holder: newHolder(most, mostBytes)}
	c.alive, c.abandon = context.WithCancelCause(alive)
	return c
}

// during runs the holder while take runs, until ctx ends, and then waits for what is being published.
func (c *consumer) during(ctx context.Context, take func()) {
	holding, stopHolding := context.WithCancel(c.alive)
	defer context.AfterFunc(ctx, stopHolding)()
	held := make(chan struct{})
	go func() {
		defer close(held)
		c.holder.run(holding)
	}()
	take()
	stopHolding()
	<-held
	c.changed(c.holder.drop())
	defer time.AfterFunc(drainTimeout, func() { c.abandon(context.DeadlineExceeded) }).Stop()
	c.working.Wait()
	c.abandon(nil)
}

// ours returns an error, and ends the consumer, if another may have its messages by now.
func (c *consumer) ours() error {
	t := c.tenure.Load()
	if t == nil {
		return nil
	}
	err := t.confirm()
	if err != nil {
		c.abandon(err)
	}
	return err
}

// begin notes the channel of a first message.
func (c *consumer) begin(d *amqp091.Delivery) {
	if c.tenure.Load() != nil {
		return
	}
	ask := func() error { return nil }
	if ch, ok := d.Acknowledger.(*amqp091.Channel); ok {
		ask = func() error {
			const noSize, wholeChannel = 0, false
			return ch.Qos(mostUnknown, noSize, wholeChannel) // for new consumers, of which there will be none
		}
	}
	c.tenure.Store(newTenure(c.pulse, ask))
}

// An incoming message has come out of the intake.
type incoming struct {
	*amqp091.Delivery
	envelope message.Envelope
	stamp    stamp
	came     time.Time
}

// read parses the headers of a message. The error says why the message is foreign.
func read(d *amqp091.Delivery) (incoming, error) {
	stamp, err := readStamp(d.Headers)
	if err != nil {
		return incoming{}, err
	}
	envelope, err := delayer.ParseHeader(d.Headers)
	return incoming{d, envelope, stamp, time.Now()}, err
}

// handle never blocks: other messages are behind this one.
func (c *consumer) handle(d *amqp091.Delivery) {
	c.begin(d)
	d = message.UnderUserKey(d)
	m, err := read(d)
	if err == nil {
		c.route(c, m)
	} else {
		c.work(func() { c.keep(d, err) })
	}
}

// hold keeps a message in memory until it is due, or returns false where there is no room.
func (c *consumer) hold(due time.Time, size int, then func()) bool {
	release := func() {
		c.changed(-1, -size)
		then()
	}
	if !c.holder.add(held{due: due, size: size, release: release}) {
		return false
	}
	c.changed(1, size)
	return true
}

// changed says by how much the memory has changed.
func (c *consumer) changed(messages, bytes int) {
	if held := c.observer.Held; held != nil && messages != 0 {
		held(delayer.HeldEvent{Backend: Name, Messages: messages, Bytes: bytes})
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
