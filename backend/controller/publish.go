package controller

import (
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

const (
	// declaredFor is the time after a declaration in which a returned message causes no other.
	declaredFor = time.Second
	// postponedFor is about how long a message waits before it is tried again.
	postponedFor = 5 * time.Second
)

// move publishes a message to another queue until that succeeds, and acknowledges it. publish also
// returns how long messages wait in that queue.
func (c *consumer) move(d *amqp091.Delivery, publish func() (wait time.Duration, err error)) {
	var wait time.Duration
	once := func() (err error) {
		wait, err = publish()
		return err
	}
	err := c.retry(d, func() error { return c.publishAgain(once) })
	c.finish(d, err)
	if round := c.observer.Round; round != nil && err == nil {
		round(delayer.RoundEvent{Backend: Name, Wait: wait})
	}
}

// deliver sends a message that is due to its destination. If the destination refuses it, as a full
// queue may, or no queue takes it, it goes through a queue and is tried again: messages for one
// destination must not fill the controller.
func (c *consumer) deliver(m incoming) {
	var bcc amqp091.Table
	if len(m.stamp.bcc) > 0 {
		bcc = amqp091.Table{"BCC": m.stamp.bcc}
	}
	stage := c.blueprint.stage
	msg := broker.Publishing{
		Exchange: stage.Exchange(), Key: m.RoutingKey,
		Message: message.Seal(message.Again(m.Delivery, c.user), m.envelope, bcc, m.stamp.to...),
	}
	if m.envelope.Exchange != "" {
		msg.Exchange = stage.Exchanges() // not through the discard queue, which would hide a return
	}
	publish := func() error {
		err := c.publishDue(msg, m.envelope.Exchange)
		if delivered := c.observer.Delivered; delivered != nil {
			delivered(delayer.DeliveryEvent{
				Backend: Name, Exchange: m.envelope.Exchange, Key: m.RoutingKey, Lateness: time.Since(m.envelope.Due), Err: err,
			})
		}
		return err
	}
	c.store(m.Delivery, publish, func() { c.again(c, m) })
}

// publishDue publishes a message that is due. A message without a matching binding goes to the
// alternate exchange, and so to the queue for unroutable messages. It is returned in two cases:
//
//   - The path to that queue is broken. The message is stored nowhere.
//   - A binding led to an exchange of the user's, which has no queue for it. There it ends, as a
//     plain publish would. A destination that is a queue knows no such case.
//
// It is the second case if, after the return, the user's exchange, the unroutable exchange and its
// queue are there, and the topology was declared in the second before. Otherwise the error stays.
func (c *consumer) publishDue(msg broker.Publishing, exchange string) error {
	err := c.publishAgain(func() error { return c.publisher.Publish(c.alive, msg) })
	if !errors.Is(err, broker.ErrReturned) || exchange == "" {
		return err
	}
	unroutable := c.blueprint.stage.Unroutable()
	missing, unknown := objects.Of(c.control, Name).Missing(c.alive, topology.Plan{
		Exchanges: []topology.Exchange{{Name: unroutable, Kind: topology.Fanout}, {Name: exchange, Kind: topology.Direct}},
		Queues:    []topology.Queue{{Name: c.blueprint.stage.Misrouted()}},
	})
	if unknown != nil {
		return unknown
	}
	if len(missing) > 0 {
		return err
	}
	return nil
}

// publishAgain calls publish a second time if the message was returned, with the topology declared
// anew.
func (c *consumer) publishAgain(publish func() error) error {
	err := publish()
	if !errors.Is(err, broker.ErrReturned) {
		return err
	}
	if err := c.keeper.Renew(c.alive, declaredFor); err != nil {
		return err
	}
	return publish()
}

// keep moves a foreign message unchanged to the unroutable queue, where an operator sees it. Only
// its Expiration is removed.
//
// A returned message is identified by [delayer.Header]. A foreign message lacks it or shares it
// with another. So foreign messages are published one at a time, on a channel without others. Only
// that channel is closed if the exchange is gone.
func (c *consumer) keep(d *amqp091.Delivery, why error) {
	c.warn("the controller got a foreign message; it is kept as unroutable",
		message.Attr(d), "error", why, "routing_key", d.RoutingKey, "queue", c.blueprint.stage.Unroutable())
	msg := broker.Publishing{Exchange: c.blueprint.stage.Keep(), Key: d.RoutingKey, Message: message.Again(d, c.user)}
	msg.Message.Expiration = ""
	publish := func() error {
		c.foreign.Lock()
		defer c.foreign.Unlock()
		err := c.publisher.PublishDirect(c.alive, msg)
		if errors.Is(err, delayer.ErrUnknown) {
			c.keeper.Doubt() // the exchange may be gone, which closes the channel
		}
		return err
	}
	c.store(d, func() error { return c.publishAgain(publish) }, func() { c.keepAgain(c, d, msg.Message, why) })
}

// store calls publish until it succeeds, and acknowledges the message. If the broker refuses the
// message or returns it, store calls postpone instead.
func (c *consumer) store(d *amqp091.Delivery, publish func() error, postpone func()) {
	var refused error
	err := c.retry(d, func() error {
		err := publish()
		if errors.Is(err, delayer.ErrRefused) || errors.Is(err, broker.ErrReturned) {
			refused, err = err, nil
		}
		return err
	})
	if refused == nil {
		c.finish(d, err)
		return
	}
	c.warn("no queue accepts a message; the controller tries again in some seconds",
		"message", d.Headers[delayer.Header], "routing_key", d.RoutingKey, "error", refused)
	postpone()
}

// finish acknowledges a message if it is stored elsewhere. The broker redelivers all others to the
// next consumer.
func (c *consumer) finish(d *amqp091.Delivery, err error) {
	if err == nil {
		c.acknowledge(d)
	}
}

const (
	firstPause   = 100 * time.Millisecond // after a message could not be published
	longestPause = 5 * time.Second
)

// retry calls publish until it succeeds or the consumer ends.
func (c *consumer) retry(d *amqp091.Delivery, publish func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.keeper.Ensure(c.alive)
		if err == nil {
			err = c.ours()
		}
		if err == nil {
			err = publish()
		}
		if err == nil || c.alive.Err() != nil {
			return err
		}
		c.warn("the controller cannot publish a message; it tries again",
			"message", d.Headers[delayer.Header], "within", pause, "error", err)
		select {
		case <-c.alive.Done():
			return err
		case <-c.ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
