package slots

import (
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
)

// confirms is a channel that publishes with confirms.
type confirms struct {
	channel *amqp091.Channel

	mu       sync.Mutex
	returns  chan amqp091.Return
	returned map[string]bool // by MessageId
}

func newConfirms(channel *amqp091.Channel) (*confirms, error) {
	if err := channel.Confirm(waitForAnswer); err != nil {
		return nil, err
	}
	const window = 1024
	returns := channel.NotifyReturn(make(chan amqp091.Return, window))
	return &confirms{channel: channel, returns: returns, returned: map[string]bool{}}, nil
}

// publish publishes a message, whose MessageId no other has. done is called in another goroutine, and
// not at all after an error.
func (c *confirms) publish(exchange, key string, msg amqp091.Publishing, done func(leader.Outcome)) error {
	const mandatory, immediate = true, false
	confirm, err := c.channel.PublishWithDeferredConfirm(exchange, key, mandatory, immediate, msg)
	if err != nil {
		return err
	}
	go func() {
		acked := confirm.Wait()
		returned := c.wasReturned(msg.MessageId)
		switch {
		case !acked && c.channel.IsClosed(): // amqp091-go says so of all that is not confirmed
			done(leader.Unknown)
		case !acked || returned:
			done(leader.Refused)
		default:
			done(leader.Stored)
		}
	}()
	return nil
}

// wasReturned reports whether a message that is confirmed was returned before.
func (c *confirms) wasReturned(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.returns) > 0 {
		r := <-c.returns
		c.returned[r.MessageId] = true
	}
	defer delete(c.returned, id)
	return c.returned[id]
}
