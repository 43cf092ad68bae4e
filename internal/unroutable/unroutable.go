// Package unroutable reads the queue in which messages are kept whose destination was gone when they were due, and
// sends them again. A message leaves that queue only by [Message.Remove]; whatever else happens, an interrupt or a
// lost connection, it is there afterwards, and in its old place.
package unroutable

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/delivery"
)

// A Box is the queue for the unroutable messages of a prefix, with a connection to it.
type Box struct {
	opts    broker.Options
	prefix  string
	queue   string
	conn    *broker.Conn // what is read
	control *broker.Control
}

// Open connects to the broker. It does not look at the queue.
func Open(ctx context.Context, opts broker.Options, prefix string) (*Box, error) {
	opts.Name = "delayer " + prefix + " unroutable"
	conn, err := broker.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	asking, err := broker.Dial(ctx, opts)
	if err != nil {
		conn.Close()
		return nil, err
	}
	const anyMode = false
	return &Box{
		opts: opts, prefix: prefix, queue: delivery.NewStage(prefix, anyMode).Unroutable(), conn: conn, control: broker.NewControl(asking),
	}, nil
}

// Close ends the connections.
func (b *Box) Close() {
	b.conn.Close()
	b.control.Close()
}

// Queue is the queue's name.
func (b *Box) Queue() string { return b.queue }

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true
	exclusive     = true
	internal      = true
	waitForAnswer = false
)

// Count is the number of messages in the queue that no one has taken just now.
func (b *Box) Count(ctx context.Context) (int, error) {
	var q amqp091.Queue
	err := b.control.Do(ctx, func(ch *amqp091.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(b.queue, durable, !autoDelete, !exclusive, waitForAnswer, nil)
		return err
	})
	return q.Messages, b.explain("look at", err)
}

// explain names the queue, and what to do where it does not exist.
func (b *Box) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	object := fmt.Sprintf("queue %q", b.queue)
	if code(err) == amqp091.NotFound {
		return &delayer.Error{
			Op: op, Object: object, Kind: delayer.ErrUnavailable, Cause: errors.New("there is no such queue"),
			Hint: "a Delayer declares it when it is opened: are prefix, broker and virtual host those of a Delayer?",
		}
	}
	return broker.Explain(op, "", object, err)
}

// code is the reply code of the broker, or 0.
func code(err error) int {
	var amqpErr *amqp091.Error
	if errors.As(err, &amqpErr) {
		return amqpErr.Code
	}
	return 0
}

// A Presence says whether a destination is there now.
type Presence int

// What Exists knows.
const (
	Unknown Presence = iota // the broker would not say
	Gone
	There
)

// Exists asks the broker for a destination: an exchange, or with "" the queue that key names.
func (b *Box) Exists(ctx context.Context, exchange, key string) (Presence, error) {
	err := b.control.Do(ctx, func(ch *amqp091.Channel) error {
		if exchange == "" {
			_, err := ch.QueueDeclarePassive(key, durable, !autoDelete, !exclusive, waitForAnswer, nil)
			return err
		}
		// The broker looks at the name alone where a declaration is passive.
		return ch.ExchangeDeclarePassive(exchange, "direct", durable, !autoDelete, !internal, waitForAnswer, nil)
	})
	switch c := code(err); {
	case err == nil, c == amqp091.ResourceLocked:
		return There, nil
	case c == amqp091.NotFound:
		return Gone, nil
	case c == amqp091.AccessRefused:
		return Unknown, nil
	}
	return Unknown, broker.Explain("look at", "", place(exchange, key), err)
}

// place is a destination for errors.
func place(exchange, key string) string {
	if exchange == "" {
		return fmt.Sprintf("queue %.300q", key)
	}
	return fmt.Sprintf("exchange %.300q", exchange)
}
