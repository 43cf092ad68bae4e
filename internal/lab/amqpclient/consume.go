package amqpclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// prefetch is how many messages the broker sends ahead of their acknowledgements.
const prefetch = 200

// errCancelled: the broker cancelled the consumer, for example because its queue was deleted.
var errCancelled = errors.New("the broker cancelled the consumer")

// Consume calls arrived for each message of a queue, then acknowledges it, unless Options.AutoAck
// is set. It returns when the
// broker has accepted the consumer, which goes on until stop or Close is called. It survives the
// loss of the connection, and the deletion of the queue if Options.Retry accepts what the broker
// answers then.
func (c *Client) Consume(
	ctx context.Context, queue string, arrived func(amqp091.Delivery, time.Time),
) (stop func(), err error) {
	consuming, stop := context.WithCancel(c.ctx)
	accepted := make(chan error, 1)
	c.consumers.Go(func() {
		err := c.Do(consuming, func(ch *amqp091.Channel) error {
			return c.consume(consuming, ch, queue, arrived, accepted)
		})
		offer(accepted, err)
	})
	select {
	case err = <-accepted:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// Interrupted reports whether a consumer has lost its channel since Open: with Options.AutoAck,
// messages may be missing.
func (c *Client) Interrupted() bool { return c.interrupted.Load() }

// consume returns nil when ctx ends.
func (c *Client) consume(
	ctx context.Context, ch *amqp091.Channel, queue string,
	arrived func(amqp091.Delivery, time.Time), accepted chan<- error,
) error {
	const anySize, wholeConnection = 0, false
	if err := ch.Qos(prefetch, anySize, wholeConnection); err != nil {
		return err
	}
	const exclusive, noLocal, noWait = false, false, false
	deliveries, err := ch.Consume(queue, "", c.options.AutoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return err
	}
	offer(accepted, nil)
	for {
		select {
		case <-ctx.Done():
			_ = ch.Close() // and the consumer with it
			return nil
		case d, ok := <-deliveries:
			if !ok {
				c.interrupted.Store(true)
				return ended(ch)
			}
			if err := c.take(d, arrived); err != nil {
				return err
			}
		}
	}
}

func (c *Client) take(d amqp091.Delivery, arrived func(amqp091.Delivery, time.Time)) error {
	arrived(d, time.Now())
	if c.options.AutoAck {
		return nil
	}
	const multiple = false
	if err := d.Ack(multiple); err != nil {
		// The write failed; the connection may not know yet that it is closed. The broker
		// redelivers the message.
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// ended returns why a broker sends no more messages.
func ended(ch *amqp091.Channel) error {
	if ch.IsClosed() {
		return amqp091.ErrClosed
	}
	return errCancelled
}

// offer sends err without blocking: only the first answer counts.
func offer(accepted chan<- error, err error) {
	select {
	case accepted <- err:
	default:
	}
}
