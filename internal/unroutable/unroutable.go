// Package unroutable reads the messages whose destination was gone when they were due, and sends
// them again. They are in the unroutable queue. While no Delayer runs, some may still be in the
// misrouted queue, which is read first.
//
// A message leaves its queue only by [Message.Remove]. After an interrupt or a lost connection it
// is still there, in its old place.
package unroutable

import (
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/misrouted"
)

// A Client reads the queues of a prefix.
type Client struct {
	Rules misrouted.Rules // compute remaining delays; set before Read

	opts    broker.Options
	prefix  string
	stage   delivery.Stage
	conn    *broker.Conn // what is read
	control *broker.Control
}

// Open connects to the broker. It does not check that the queue exists.
func Open(ctx context.Context, opts broker.Options, prefix string) (*Client, error) {
	opts.Name = "delayer " + prefix + " unroutable"
	reading := opts
	reading.LargeFrames = true
	conn, err := broker.Dial(ctx, reading)
	if err != nil {
		return nil, err
	}
	asking, err := broker.Dial(ctx, opts)
	if err != nil {
		conn.Close()
		return nil, err
	}
	const anyMode = false
	return &Client{
		opts: opts, prefix: prefix, stage: delivery.NewStage(prefix, anyMode), conn: conn, control: broker.NewControl(asking),
	}, nil
}

// Close ends the connections.
func (b *Client) Close() {
	b.conn.Close()
	b.control.Close()
}

// Queue is the name of the unroutable queue.
func (b *Client) Queue() string { return b.stage.Unroutable() }

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true
	exclusive     = true
	waitForAnswer = false
)

// Count returns the number of ready messages in both queues.
func (b *Client) Count(ctx context.Context) (int, error) {
	misrouted, err := b.count(ctx, b.stage.Misrouted())
	if err != nil {
		return 0, err
	}
	kept, err := b.count(ctx, b.Queue())
	return misrouted + kept, err
}

// count counts one queue. The misrouted queue may be missing.
func (b *Client) count(ctx context.Context, queue string) (int, error) {
	var q amqp091.Queue
	err := b.control.Do(ctx, func(ch *amqp091.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(queue, durable, !autoDelete, !exclusive, waitForAnswer, nil)
		return err
	})
	if broker.Code(err) == amqp091.NotFound && queue == b.stage.Misrouted() {
		return 0, nil
	}
	return q.Messages, b.explain("look at", queue, err)
}

// explain names the queue, and what to do if it does not exist.
func (b *Client) explain(op, queue string, err error) error {
	if err == nil {
		return nil
	}
	object := fmt.Sprintf("queue %q", queue)
	if broker.Code(err) == amqp091.NotFound {
		return &delayer.Error{
			Op: op, Object: object, Kind: delayer.ErrUnavailable, Cause: errors.New("there is no such queue"),
			Hint: "a Delayer declares it when it is opened: are prefix, broker and virtual host those of a Delayer?",
		}
	}
	return broker.Explain(op, "", object, err)
}

// Exists asks the broker for a destination.
func (b *Client) Exists(ctx context.Context, exchange, key string) (delivery.Presence, error) {
	return delivery.Exists(ctx, b.control, exchange, key)
}
