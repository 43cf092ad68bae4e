// Package logwheel runs the leader of the log and slots on a broker: docs/wheel.md has the protocol,
// package leader decides.
//
// It is a first form. What it lacks is in HANDOVER.md.
package logwheel

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/delivery"
)

// Config is what a candidate needs.
type Config struct {
	Prefix  string // of the names of queues
	Process string // the name under which this process writes to the log; nobody else has it
	Rings   leader.Rings
	Dial    func() (*amqp091.Connection, error)
	Now     func() leader.Now
	Logger  *slog.Logger

	// Message returns a message as it is published to its destination: the exchange, the routing
	// key, the message and the MessageId that a return of it would have.
	Message func(leader.Item) (exchange, key string, msg amqp091.Publishing, err error)
}

// LogQueue is the name of the queue of the log.
func (c *Config) LogQueue() string { return c.Prefix + ".log" }

func (c *Config) queue(q leader.Queue) string {
	if q == leader.Log {
		return c.LogQueue()
	}
	return fmt.Sprintf("%s.slot.%s.%02d", c.Prefix, c.Rings[q.Ring].Name, q.Index)
}

// Declare declares the log and the slots.
func (c *Config) Declare(channel *amqp091.Channel) error {
	for _, q := range append(c.Rings.Slots(), leader.Log) {
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		args := delivery.Keeping("").Args
		args["x-single-active-consumer"] = true
		if _, err := channel.QueueDeclare(c.queue(q), durable, autoDelete, exclusive, noWait, args); err != nil {
			return err
		}
	}
	return nil
}

// Serve serves one tenure after the other, until ctx ends.
func (c *Config) Serve(ctx context.Context) {
	const pause = 200 * time.Millisecond
	for ctx.Err() == nil {
		if err := c.serve(ctx); ctx.Err() == nil {
			c.Logger.Warn("the controller has lost the log; it takes it again", "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// A tenure runs one leader. All that happens is an event of its queue, which one goroutine takes.
type tenure struct {
	*Config
	conn   *amqp091.Connection
	log    *confirms // the channel that consumes the log: it writes slots, and the log
	out    *confirms // the channel to destinations
	leader *leader.Leader
	slots  map[leader.Queue]*amqp091.Channel

	mu     sync.Mutex
	events []leader.Event
	why    error // it ends
	wake   chan struct{}
}

// serve returns why the tenure has ended. Its end is that of the connection, so that nothing is
// written after it.
func (c *Config) serve(ctx context.Context) error {
	conn, err := c.Dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }() // it may be lost already
	t := &tenure{Config: c, conn: conn, slots: map[leader.Queue]*amqp091.Channel{}, wake: make(chan struct{}, 1)}
	channel, err := conn.Channel()
	if err == nil {
		t.log, err = newConfirms(channel)
	}
	if err != nil {
		return err
	}
	outwards, err := conn.Channel()
	if err == nil {
		t.out, err = newConfirms(outwards)
	}
	if err != nil {
		return err
	}
	t.slots[leader.Log] = channel
	t.leader = leader.New(leader.Config{Rings: c.Rings, Tenure: rand.Text()[:12]}, c.Now())
	t.watch(conn.NotifyClose(make(chan *amqp091.Error, 1)), nil)
	t.watch(outwards.NotifyClose(make(chan *amqp091.Error, 1)), nil)
	t.watch(channel.NotifyClose(make(chan *amqp091.Error, 1)), channel.NotifyCancel(make(chan string, 1)))
	messages, err := consumeFrom(channel, c.LogQueue(), leader.LogPrefetch)
	if err != nil {
		return err
	}
	go t.pump(leader.Log, channel, messages)
	defer context.AfterFunc(ctx, func() { t.end(errClosing) })()
	return t.run()
}

// end ends the tenure.
func (t *tenure) end(why error) {
	t.mu.Lock()
	if t.why == nil {
		t.why = why
	}
	t.mu.Unlock()
	t.signal()
}

func (t *tenure) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// happened adds an event. It never waits.
func (t *tenure) happened(e leader.Event) {
	t.mu.Lock()
	t.events = append(t.events, e)
	t.mu.Unlock()
	t.signal()
}

// watch ends the tenure when a channel or its consumer is lost.
func (t *tenure) watch(closed chan *amqp091.Error, cancelled chan string) {
	go func() {
		select {
		case err := <-closed:
			if err != nil {
				t.end(err)
			}
		case queue, is := <-cancelled:
			if is {
				t.end(fmt.Errorf("queue %s is gone", queue))
			}
		}
	}()
}

// run takes events until the tenure ends.
func (t *tenure) run() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		t.mu.Lock()
		events, why := t.events, t.why
		t.events = nil
		t.mu.Unlock()
		if why != nil {
			return why
		}
		for _, e := range events {
			if d, is := e.(fromChannel); is {
				if t.slots[d.Queue] != d.channel {
					continue // it goes back
				}
				e = d.Delivered
			}
			t.step(e)
		}
		next := t.step(leader.Tick{})
		timer.Reset(next - t.Now().Mono)
		select {
		case <-timer.C:
		case <-t.wake:
		}
	}
}

// step tells the leader what has happened, and does what it says.
func (t *tenure) step(e leader.Event) (next time.Duration) {
	todo, next := t.leader.Step(t.Now(), e)
	for _, e := range todo {
		if err := t.do(e); err != nil {
			t.end(err)
		}
	}
	return next
}

func (t *tenure) do(e leader.Effect) error {
	switch e := e.(type) {
	case leader.Consume:
		return t.consume(e)
	case leader.Release:
		t.release(e.Queue)
	case leader.Ack:
		if channel := t.slots[e.Queue]; channel != nil {
			return channel.Ack(e.Tag, e.Multiple)
		}
	case leader.Write:
		return t.write(e)
	case leader.Deliver:
		return t.deliver(e.Item)
	case leader.Keep:
		return t.keep(e.Item)
	case leader.Surrender:
		return fmt.Errorf("%s", e.Why)
	}
	return nil
}

// consume opens a channel for a slot. It waits for the broker: three round trips.
func (t *tenure) consume(e leader.Consume) error {
	channel, err := t.conn.Channel()
	if err != nil {
		return err
	}
	t.watch(channel.NotifyClose(make(chan *amqp091.Error, 1)), channel.NotifyCancel(make(chan string, 1)))
	messages, err := consumeFrom(channel, t.queue(e.Queue), e.Prefetch)
	if err != nil {
		return err
	}
	t.slots[e.Queue] = channel
	go t.pump(e.Queue, channel, messages)
	return nil
}

// pump takes the bundles of a queue.
func (t *tenure) pump(q leader.Queue, channel *amqp091.Channel, messages <-chan amqp091.Delivery) {
	for m := range messages {
		d := leader.Delivered{Queue: q, Tag: m.DeliveryTag, Again: m.Redelivered}
		d.Bundle, d.Err = bundle.Read(m.Body)
		d.Raw = m
		d.Own = d.Err == nil && d.Bundle.Writer == t.Process
		if d.Err != nil {
			t.Logger.Warn("a bundle cannot be read", "queue", t.queue(q), "error", d.Err)
		}
		t.happened(fromChannel{d, channel})
	}
}

// fromChannel is a delivery of a channel, which may have been released since.
type fromChannel struct {
	leader.Delivered
	channel *amqp091.Channel
}

// release closes the channel of a slot. The broker answers after it has taken all acknowledgements.
func (t *tenure) release(q leader.Queue) {
	channel := t.slots[q]
	delete(t.slots, q)
	go func() {
		const wait = false
		err := channel.Cancel("delayer", wait)
		if err == nil {
			err = channel.Close()
		}
		if err != nil {
			t.end(err)
			return
		}
		t.happened(leader.Released{Queue: q})
	}()
}

// write writes a bundle.
func (t *tenure) write(e leader.Write) error {
	key := fmt.Sprint(e.ID)
	msg := amqp091.Publishing{
		ContentType: bundle.ContentType, DeliveryMode: amqp091.Persistent, MessageId: key, Body: e.Bundle.Append(nil),
	}
	return t.log.publish("", t.queue(e.To), key, msg, func(o leader.Outcome) { t.happened(leader.Written{ID: e.ID, Outcome: o}) })
}

// deliver publishes a message to its destination.
func (t *tenure) deliver(it *leader.Item) error {
	exchange, key, msg, err := t.Message(*it)
	if err != nil { // it was forged: nobody can deliver it
		t.Logger.Error("a message cannot be read", "message", it.ID, "error", err)
		t.happened(leader.Sent{Item: it, Outcome: leader.Stored})
		return nil
	}
	return t.out.publish(exchange, key, msg.MessageId, msg, func(o leader.Outcome) { t.happened(leader.Sent{Item: it, Outcome: o}) })
}

// keep would keep what is not a bundle with the unroutable messages.
func (t *tenure) keep(it *leader.Item) error {
	t.happened(leader.Sent{Item: it, Outcome: leader.Refused})
	return nil
}
