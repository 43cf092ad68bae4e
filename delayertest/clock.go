package delayertest

import (
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Handle makes f receive every message that comes due from now on, one after the other. With
// [Config].Timers it is called in a goroutine of its own, without them by Advance. f may publish;
// it must not call Advance.
func (d *Delayer) Handle(f func(amqp091.Delivery)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handle = f
}

// Advance moves the time by a duration, and returns the messages that came due in it, in the order
// of their due times. Those without a delay come due with Advance(0). While a handler receives a
// message, the time is that at which the message was due: what the handler publishes comes due in
// the same call, if the duration is long enough.
//
// With [Config].Timers it sleeps. A negative duration panics.
func (d *Delayer) Advance(by time.Duration) []amqp091.Delivery {
	if by < 0 {
		panic("delayertest: Advance by a negative duration")
	}
	d.mu.Lock()
	before := len(d.delivered)
	d.mu.Unlock()
	if d.timers {
		time.Sleep(by)
		d.deliver()
	} else {
		d.deliverUntil(by)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.delivered[before:])
}

// Now returns the time by the clock of the Delayer, for a program that can be given a clock. It
// begins at the time of New.
func (d *Delayer) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now()
}

func (b *broker) now() time.Time {
	if b.timers {
		return time.Now()
	}
	return b.time
}

// deliver hands on what is due, in the turn of this caller.
func (b *broker) deliver() { b.deliverUntil(0) }

func (b *broker) deliverUntil(by time.Duration) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	b.mu.Lock()
	end := b.time.Add(by)
	b.mu.Unlock()
	for {
		b.mu.Lock()
		if b.timers {
			end = time.Now()
		}
		if len(b.waiting) == 0 || b.waiting[0].due.After(end) {
			b.time = end
			b.mu.Unlock()
			return
		}
		w := b.waiting[0]
		b.waiting = b.waiting[1:]
		if w.due.After(b.time) {
			b.time = w.due
		}
		m := w.delivery()
		m.DeliveryTag = uint64(len(b.delivered)) + 1
		b.delivered = append(b.delivered, m)
		handle := b.handle
		b.mu.Unlock()
		if handle != nil {
			handle(m)
		}
	}
}
