package slots

import (
	"fmt"

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
