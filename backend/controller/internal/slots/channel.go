package slots

import (
	"context"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
)

// confirms is a channel that publishes with confirms. What became of each message is told once, in
// the order of the broker's answers, by a goroutine of the channel. One goroutine publishes.
type confirms struct {
	channel *amqp091.Channel

	mu       sync.Mutex
	pending  map[uint64]sent // by delivery tag
	returned map[string]bool // by MessageId
	ended    bool
}

type sent struct {
	id   string
	done func(leader.Outcome)
}

func newConfirms(channel *amqp091.Channel) (*confirms, error) {
	if err := channel.Confirm(waitForAnswer); err != nil {
		return nil, err
	}
	c := &confirms{channel: channel, pending: map[uint64]sent{}, returned: map[string]bool{}}
	const window = 1024
	answers, returns := channel.NotifyPublish(make(chan amqp091.Confirmation, window)), channel.NotifyReturn(make(chan amqp091.Return, window))
	go c.listen(answers, returns)
	return c, nil
}

// publish publishes a message, whose MessageId no other has. done is not called before publish has
// returned, and not at all after an error.
func (c *confirms) publish(exchange, key string, msg amqp091.Publishing, done func(leader.Outcome)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return amqp091.ErrClosed
	}
	tag := c.channel.GetNextPublishSeqNo()
	c.pending[tag] = sent{msg.MessageId, done}
	const mandatory, immediate = true, false
	err := c.channel.PublishWithContext(context.Background(), exchange, key, mandatory, immediate, msg)
	if err != nil {
		delete(c.pending, tag)
	}
	return err
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
		msg := c.pending[answer.DeliveryTag]
		delete(c.pending, answer.DeliveryTag)
		outcome := leader.Stored
		switch {
		case c.channel.IsClosed() && !answer.Ack: // amqp091-go says so of all that is not confirmed
			outcome = leader.Unknown
		case !answer.Ack || c.returned[msg.id]:
			outcome = leader.Refused
		}
		delete(c.returned, msg.id)
		c.mu.Unlock()
		if msg.done != nil {
			msg.done(outcome)
		}
	}
	c.mu.Lock()
	lost := c.pending
	c.ended, c.pending = true, nil
	c.mu.Unlock()
	for _, msg := range lost {
		msg.done(leader.Unknown)
	}
}
