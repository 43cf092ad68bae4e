package slots

import (
	"fmt"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// A queue is one that is consumed, on a channel of its own.
type queue struct {
	tenure  *tenure
	is      leader.Queue
	name    string
	line    line             // begins to consume it, and then ends that
	channel *amqp091.Channel // nil before it is open; written with mu held
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods

// open opens the channel, and ends the tenure when it is lost.
func (q *queue) open() (*amqp091.Channel, error) {
	channel, err := q.tenure.session.In.Channel(q.tenure.ctx)
	if err != nil {
		return nil, err
	}
	closed, cancelled := channel.NotifyClose(make(chan *amqp091.Error, 1)), channel.NotifyCancel(make(chan string, 1))
	go func() {
		select {
		case err := <-closed:
			if err != nil {
				q.tenure.end(fmt.Errorf("queue %s: %w", q.name, err))
			}
		case _, is := <-cancelled:
			if is {
				q.tenure.end(fmt.Errorf("queue %s: %w", q.name, broker.ErrConsumerEnded))
			}
		}
	}()
	q.tenure.mu.Lock()
	q.channel = channel
	q.tenure.mu.Unlock()
	return channel, nil
}

// consume begins to consume.
func (q *queue) consume(channel *amqp091.Channel, prefetch int) error {
	messages, err := broker.Begin(channel, q.name, "delayer", prefetch, nil)
	if err == nil {
		q.tenure.working.Go(func() { q.pump(messages) })
	}
	return err
}

// pump takes the bundles of the queue.
func (q *queue) pump(messages <-chan amqp091.Delivery) {
	user := q.tenure.session.In.User()
	for d := range messages {
		e := read(&d, q.is, user, q.tenure.process)
		q.tenure.mu.Lock()
		if q.tenure.queues[q.is] == q { // else it was released
			q.tenure.step(e)
		}
		q.tenure.mu.Unlock()
	}
}

// release ends the consumer, once the acknowledgements are stored. What is not acknowledged goes back.
func (q *queue) release() {
	if q.channel != nil && broker.EndActive(q.channel, q.name) {
		q.tenure.happened(leader.Released{Queue: q.is})
	}
}

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
func (c *confirms) publish(exchange, key string, msg amqp091.Publishing, done func(stored bool)) error {
	const mandatory, immediate = true, false
	confirm, err := c.channel.PublishWithDeferredConfirm(exchange, key, mandatory, immediate, msg)
	if err != nil {
		return err
	}
	go func() {
		acked := confirm.Wait()
		done(!c.wasReturned(msg.MessageId) && acked)
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
