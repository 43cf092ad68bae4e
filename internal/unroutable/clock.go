package unroutable

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
)

// A clock is the broker's, asked once. After that it runs on with the monotonic clock of this
// process, so that nothing depends on how the operator's machine is set.
type clock struct {
	asked, answer time.Time
}

// now is at most a second behind the broker's clock, plus the time that the answer took. It is
// never ahead.
func (c clock) now() time.Time { return c.answer.Add(time.Since(c.asked)) }

// askClock lets a message expire at once: the broker dates its death, in whole seconds, rounded
// down. The queues are exclusive, and their names begin with the prefix.
func (b *Client) askClock(ctx context.Context) (clock, error) {
	name := b.prefix + ".clock." + rand.Text()[:8]
	c := clock{}
	err := b.control.Do(ctx, func(ch *amqp091.Channel) error {
		expiring, expired := name+".expiring", name+".expired"
		const internal, multiple, noLocal, mandatory, immediate = false, false, false, false, false
		if err := ch.ExchangeDeclare(name, amqp091.ExchangeFanout, !durable, autoDelete, internal, waitForAnswer, nil); err != nil {
			return err
		}
		for queue, args := range map[string]amqp091.Table{
			expiring: {"x-queue-type": string(delayer.Classic), "x-message-ttl": int64(0), "x-dead-letter-exchange": name},
			expired:  {"x-queue-type": string(delayer.Classic)},
		} {
			if _, err := ch.QueueDeclare(queue, !durable, !autoDelete, exclusive, waitForAnswer, args); err != nil {
				return err
			}
			defer ch.QueueDelete(queue, false, false, waitForAnswer) //nolint:errcheck // goes with the connection
		}
		if err := ch.QueueBind(expired, "", name, waitForAnswer, nil); err != nil {
			return err
		}
		const autoAck = true
		got, err := ch.ConsumeWithContext(ctx, expired, "", autoAck, exclusive, noLocal, waitForAnswer, nil)
		if err != nil {
			return err
		}
		if err := ch.PublishWithContext(ctx, "", expiring, mandatory, immediate, amqp091.Publishing{}); err != nil {
			return err
		}
		select {
		case d, ok := <-got:
			if !ok {
				return amqp091.ErrClosed
			}
			if c.answer = message.LastDeath(d.Headers); c.answer.IsZero() {
				return errors.New("its x-death has no time")
			}
			c.asked = time.Now()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		err = broker.Explain("ask for the broker's time", b.opts.Backend, "queue "+name, err)
		var known *delayer.Error
		if errors.As(err, &known) && errors.Is(known, delayer.ErrAccess) {
			known.Hint = "messages that have not waited for their whole delay need it: the user must configure, write and read names that begin with the prefix"
		}
	}
	return c, err
}
