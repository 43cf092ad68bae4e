package controller

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// rounds is the router of messages that wait in TTL queues, again and again.
type rounds struct{}

// route implements [router].
func (rounds) route(c *consumer, m incoming) {
	now, expired := time.Now(), expired(m.Headers)
	remaining := m.stamp.remaining(now, expired)
	if early := remaining - m.stamp.left; expired && early > time.Second {
		c.warn("a message expired too early and waits again: is there a policy with message-ttl?",
			"message", m.envelope.ID, "early", early.Round(time.Millisecond))
	}
	level := c.blueprint.schedule.next(remaining)
	if level == hold {
		if c.hold(now.Add(remaining), len(m.Body), func() { c.work(func() { c.deliver(m) }) }) {
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

// again implements [router].
func (rounds) again(c *consumer, m incoming) {
	c.forward(m, c.blueprint.schedule.level(postponedFor), time.Now(), 0)
}

// keepAgain implements [router].
func (rounds) keepAgain(c *consumer, d *amqp091.Delivery, msg amqp091.Publishing, _ error) {
	delete(msg.Headers, "x-death") // or the broker may see a cycle, and drop the message
	c.wait(d, c.blueprint.schedule.level(postponedFor), msg)
}

// acknowledge implements [router].
func (rounds) acknowledge(d *amqp091.Delivery) { _ = d.Ack(false) } // fails only if the channel is lost

// forward sends a message to the queue of a level.
func (c *consumer) forward(m incoming, level int, now time.Time, remaining time.Duration) {
	next := m.stamp.restamp(now, remaining, c.blueprint.schedule.ttl(level))
	c.wait(m.Delivery, level, message.Seal(message.Again(m.Delivery, c.user), m.envelope, next.header()))
}

// wait puts a message into the queue of a level.
func (c *consumer) wait(d *amqp091.Delivery, level int, msg amqp091.Publishing) {
	to := broker.Publishing{Exchange: c.blueprint.names.wait(level), Key: d.RoutingKey, Message: msg}
	c.move(d, func() (time.Duration, error) {
		return c.blueprint.schedule.ttl(level), c.publisher.Publish(c.alive, to)
	})
}
