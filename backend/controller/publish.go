package controller

import (
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
)

// forward sends a message to the queue of a level.
func (s *session) forward(p parcel, level int, now time.Time, remaining time.Duration) {
	next := p.stamp.restamp(now, remaining, s.blueprint.schedule.ttl(level))
	err := s.insist(p, func() error {
		return s.publisher.Publish(s.alive, broker.Publishing{
			Exchange: s.blueprint.names.wait(level), Key: p.RoutingKey,
			Message: message.Seal(s.publishing(p.Delivery), p.envelope, next.header()),
		})
	})
	s.acknowledge(p, err)
}

// deliver sends a message that is due to its destination. A destination that refuses it, as a full queue may, is
// tried again when the message has been through a queue once more: the controller must not fill with
// messages for one destination.
func (s *session) deliver(p parcel) {
	var bcc amqp091.Table
	if len(p.stamp.bcc) > 0 {
		bcc = amqp091.Table{"BCC": p.stamp.bcc}
	}
	msg := broker.Publishing{
		Exchange: s.blueprint.stage.Exchange(), Key: p.RoutingKey,
		Message: message.Seal(s.publishing(p.Delivery), p.envelope, bcc, p.stamp.to...),
	}
	var refused error
	err := s.insist(p, func() error {
		err := s.publishDue(msg)
		if errors.Is(err, delayer.ErrRefused) {
			refused, err = err, nil
		}
		return err
	})
	if refused != nil {
		s.complain("a destination refuses messages; the controller will try again", "message", p.envelope.ID, "routing_key", p.RoutingKey, "error", refused)
		s.forward(p, s.blueprint.schedule.level(refusedFor), time.Now(), 0)
		return
	}
	s.acknowledge(p, err)
}

// publishDue publishes to the delivery exchange, which leads everything somewhere. If a message comes back, either
// that lacks its alternate exchange, or an exchange of the user's routes the message nowhere: there it ends, as
// a plain publish would.
func (s *session) publishDue(msg broker.Publishing) error {
	err := s.publisher.Publish(s.alive, msg)
	if !errors.Is(err, broker.ErrReturned) {
		return err
	}
	if err := s.assure(s.alive, sureFor); err != nil {
		return err
	}
	if err = s.publisher.Publish(s.alive, msg); errors.Is(err, broker.ErrReturned) {
		return nil
	}
	return err
}

const (
	// sureFor is how long the topology, once declared, is taken to be there by those who doubt it.
	sureFor = time.Second
	// refusedFor is about how long a message waits whose destination has refused it.
	refusedFor = 5 * time.Second
)

// poison keeps a message that is not ours, as it is, where someone will see it. Without its Expiration, because it
// shall stay there.
func (s *session) poison(d *amqp091.Delivery, why error) {
	s.complain("a message that is not ours has come to the controller; it is kept with those that are unroutable",
		"error", why, "message_id", d.MessageId, "routing_key", d.RoutingKey, "queue", s.blueprint.stage.Unroutable())
	msg := broker.Publishing{Exchange: s.blueprint.stage.Keep(), Key: d.RoutingKey, Message: s.publishing(d)}
	msg.Message.Expiration = ""
	p := parcel{Delivery: d}
	s.acknowledge(p, s.insist(p, func() error { return s.publisher.Publish(s.alive, msg) }))
}

// acknowledge takes a message out of the intake that is safe elsewhere. Any other comes again with the next session.
func (s *session) acknowledge(p parcel, err error) {
	if err == nil {
		_ = p.Ack(false) // fails only where the channel is lost
	}
}

const (
	firstPause   = 100 * time.Millisecond // after a message could not be published
	longestPause = 5 * time.Second
)

// insist calls publish until it succeeds or the session ends.
func (s *session) insist(p parcel, publish func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.redeclare(s.alive)
		if err == nil {
			err = publish()
		}
		switch {
		case err == nil, s.alive.Err() != nil:
			return err
		case errors.Is(err, broker.ErrReturned) && pause == firstPause:
			s.stale.Store(true) // a queue of ours is gone: declare it and try at once
			continue
		}
		s.complain("the controller cannot publish a message; it tries again", "message", p.envelope.ID, "within", pause, "error", err)
		select {
		case <-s.alive.Done():
			return err
		case <-s.ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// counters are headers that a quorum queue adds when it delivers a message again.
var counters = [...]string{"x-delivery-count", "x-acquired-count"}

// publishing is a message as it came, to be published again. d is ours alone.
func (s *session) publishing(d *amqp091.Delivery) amqp091.Publishing {
	for _, name := range counters {
		delete(d.Headers, name)
	}
	user := d.UserId
	if user != s.user {
		user = "" // the broker would close the channel
	}
	return amqp091.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		Expiration: d.Expiration, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: user,
		AppId: d.AppId, Body: d.Body,
	}
}
