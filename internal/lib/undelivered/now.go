package undelivered

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A brokersTime asks the broker for its time: a message that expires at once is dead-lettered, and
// x-death says when. The queues are exclusive to the control connection and deleted with it, the
// exchange with the queues:
//
//	<prefix>.clock.<id>              a direct exchange
//	<prefix>.clock.<id>.expiring     the queue in which questions expire
//	<prefix>.clock.<id>.answers.<id> the queue that they are dead-lettered to
type brokersTime struct {
	publisher *broker.Publisher
	back      broker.Returns
	told      time.Time
	asked     time.Time
}

// Routing keys of the exchange.
const keyQuestion, keyAnswer = "question", "answer"

func newBrokersTime(c *Client, publisher *broker.Publisher) *brokersTime {
	exchange := c.prefix + ".clock." + rand.Text()[:8]
	return &brokersTime{publisher: publisher, back: broker.Returns{
		Control: c.control, Name: exchange + ".answers", Exchange: exchange, Key: keyAnswer,
	}}
}

// earliest is the broker's time of at most two seconds ago. Nothing depends on how the operator's
// machine is set.
func (s *Sender) earliest(ctx context.Context) (time.Time, error) {
	b := s.time
	if asked := time.Now(); b.told.IsZero() || asked.Sub(b.asked) > time.Second {
		if err := b.ask(ctx); err != nil {
			err = broker.Explain("ask for the broker's time", s.client.opts.Backend, "exchange "+b.back.Exchange, err)
			var known *delayer.Error
			if errors.As(err, &known) && errors.Is(known, delayer.ErrAccess) {
				known.Hint = fmt.Sprintf("the user must configure, write and read names that begin with %q", s.client.prefix+".clock.")
			}
			return time.Time{}, err
		}
		b.asked = asked
	}
	return b.told, nil
}

func (b *brokersTime) ask(ctx context.Context) error {
	if _, err := b.back.Open(ctx, b.declare); err != nil {
		return err
	}
	msg := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient}, message.NewEnvelope(time.Now(), 0, ""), nil)
	if err := b.publisher.PublishDirect(ctx, broker.Publishing{Exchange: b.back.Exchange, Key: keyQuestion, Message: msg}); err != nil {
		return err
	}
	select {
	case d, ok := <-b.back.Messages(): // an answer to an earlier question is as true
		if !ok {
			b.back.Ended()
			return amqp091.ErrClosed
		}
		b.told = message.LastDeath(d.Headers)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *brokersTime) declare(ch *amqp091.Channel) error {
	const durable, autoDelete, internal, exclusive, waitForAnswer = false, true, false, true, false
	exchange := b.back.Exchange
	if err := ch.ExchangeDeclare(exchange, amqp091.ExchangeDirect, durable, autoDelete, internal, waitForAnswer, nil); err != nil {
		return err
	}
	expiring := exchange + ".expiring"
	_, err := ch.QueueDeclare(expiring, durable, !autoDelete, exclusive, waitForAnswer, amqp091.Table{
		"x-queue-type": "classic", "x-message-ttl": int64(0),
		"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": keyAnswer,
	})
	if err != nil {
		return err
	}
	return ch.QueueBind(expiring, keyQuestion, exchange, waitForAnswer, nil)
}
