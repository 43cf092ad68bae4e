package logwheel

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
)

// confirms is a channel that publishes with confirms. What became of each message is told once, in
// the order of the broker's answers, by a goroutine of the channel.
type confirms struct {
	channel *amqp091.Channel

	mu       sync.Mutex
	pending  map[uint64]func(leader.Outcome) // by delivery tag
	returned map[string]bool                 // messages, by their key
	keys     map[uint64]string
	ended    bool
}

// newConfirms makes a channel one that publishes with confirms.
func newConfirms(channel *amqp091.Channel) (*confirms, error) {
	const wait = false
	if err := channel.Confirm(wait); err != nil {
		return nil, err
	}
	c := &confirms{
		channel: channel, pending: map[uint64]func(leader.Outcome){}, returned: map[string]bool{}, keys: map[uint64]string{},
	}
	const window = 1024
	answers, returns := channel.NotifyPublish(make(chan amqp091.Confirmation, window)), channel.NotifyReturn(make(chan amqp091.Return, window))
	go c.listen(answers, returns)
	return c, nil
}

// publish publishes a message that nobody else publishes at the time on this channel. key tells its
// return from others. done is not called before publish has returned.
func (c *confirms) publish(exchange, routingKey, key string, msg amqp091.Publishing, done func(leader.Outcome)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return amqp091.ErrClosed
	}
	tag := c.channel.GetNextPublishSeqNo()
	c.pending[tag], c.keys[tag] = done, key
	const mandatory, immediate = true, false
	if err := c.channel.PublishWithContext(context.Background(), exchange, routingKey, mandatory, immediate, msg); err != nil {
		delete(c.pending, tag)
		delete(c.keys, tag)
		return err
	}
	return nil
}

// listen takes answers until the channel is closed. A return comes before its confirm.
func (c *confirms) listen(answers chan amqp091.Confirmation, returns chan amqp091.Return) {
	for answer := range answers {
		c.mu.Lock()
		for more := true; more; {
			select {
			case r, is := <-returns:
				if more = is; is {
					c.returned[r.MessageId] = true
				}
			default:
				more = false
			}
		}
		done, key := c.pending[answer.DeliveryTag], c.keys[answer.DeliveryTag]
		delete(c.pending, answer.DeliveryTag)
		delete(c.keys, answer.DeliveryTag)
		outcome := leader.Stored
		if !answer.Ack || c.returned[key] {
			outcome = leader.Refused
		}
		if c.channel.IsClosed() && !answer.Ack {
			outcome = leader.Unknown
		}
		delete(c.returned, key)
		c.mu.Unlock()
		if done != nil {
			done(outcome)
		}
	}
	c.mu.Lock()
	c.ended = true
	lost := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, done := range lost {
		done(leader.Unknown)
	}
}

// consumeFrom begins to consume a queue on a channel of its own.
func consumeFrom(channel *amqp091.Channel, queue string, prefetch int) (<-chan amqp091.Delivery, error) {
	const wholeChannel, noSize = false, 0
	if err := channel.Qos(prefetch, noSize, wholeChannel); err != nil {
		return nil, err
	}
	const autoAck, exclusive, noLocal, noWait = false, false, false, false
	messages, err := channel.Consume(queue, "delayer", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	return messages, nil
}

var errClosing = errors.New("closing")
