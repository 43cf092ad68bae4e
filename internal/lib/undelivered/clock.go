package undelivered

import (
	"context"
	"crypto/rand"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// newClock learns the broker's time for one Sender. Its questions expire in a queue that is
// exclusive to the control connection, and deleted with it; the exchanges go with the queues:
//
//	<prefix>.clock.<id>            leads to the queue
//	<prefix>.clock.<id>.expiring   the queue in which questions expire
//	<prefix>.clock.<id>.answers    the exchange that they are dead-lettered to
func newClock(c *Client, publisher *broker.Publisher) *brokertime.Clock {
	name := c.prefix + ".clock." + rand.Text()[:8]
	shared := brokertime.Shared{Queue: name + ".expiring", Exchange: name, Key: "question", Answers: name + ".answers"}
	shared.Restore = func(ctx context.Context) error {
		return c.control.Do(ctx, func(ch *amqp091.Channel) error {
			const durable, autoDelete, internal, waitForAnswer = false, true, false, false
			for _, exchange := range []string{name, shared.Answers} {
				if err := ch.ExchangeDeclare(exchange, amqp091.ExchangeDirect, durable, autoDelete, internal, waitForAnswer, nil); err != nil {
					return err
				}
			}
			_, err := ch.QueueDeclare(shared.Queue, durable, !autoDelete, exclusive, waitForAnswer, amqp091.Table{
				"x-queue-type": "classic", "x-dead-letter-exchange": shared.Answers,
			})
			if err != nil {
				return err
			}
			return ch.QueueBind(shared.Queue, shared.Key, name, waitForAnswer, nil)
		})
	}
	return brokertime.New(brokertime.Config{
		Backend: c.opts.Backend, Prefix: c.prefix, Logger: c.opts.Slog(), Control: c.control, Shared: shared,
		Publish: func(ctx context.Context, p broker.Publishing) error { return publisher.PublishDirect(ctx, p) },
	})
}

// earliest is a time that the broker's clock has reached, by at most two seconds. Nothing depends
// on how the operator's machine is set.
func (s *Sender) earliest(ctx context.Context) (time.Time, error) {
	now, known := s.clock.Read()
	if !known {
		err := s.clock.Ask(ctx)
		if broker.Code(err) == amqp091.NotFound { // the first question of all: the next declares what it needs
			err = s.clock.Ask(ctx)
		}
		if err != nil {
			return time.Time{}, err
		}
		now, _ = s.clock.Read()
	}
	return now.Earliest, nil
}
