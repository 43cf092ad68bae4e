// Package undelivered reads the queues of messages that were not delivered, and sends from them:
//
//   - the queue for unroutable messages of a prefix, whose destination was gone when they were due.
//     While no Delayer runs, some may still be in the misrouted queue, which is read first;
//   - queues of parked messages, which package retry has given up.
//
// A message leaves its queue only by [Kept.Remove]. After an interrupt or a lost connection it
// is still there, in its old place.
package undelivered

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A Client reads the queues of a prefix, or one queue of parked messages.
type Client struct {
	Rules delivery.Rules // compute remaining delays; set before Read

	// Ask asks the management API for the nature of a queue. Set before Read. nil: AMQP tells of a
	// queue of parked messages, but not what policies set.
	Ask func(ctx context.Context, queue string) (Nature, error)

	// From is the queue in which parked messages failed, if its name does not tell: see
	// attempt.Belongs. Set before Read.
	From string

	// Owner is the prefix of a Delayer: it delivers messages by exchanges of its own, to which nobody
	// has published them. Set before Read.
	Owner string

	// Again says why delayer serve would park a message again that this user sends with this NewDelay,
	// and what to do, or is "". Nil: messages do not go there.
	Again func(m *amqp091.Delivery, user, newDelay string) string

	// To is the exchange to which unroutable messages are sent that do not tell where they belong, with
	// their routing key: those that others have published to an exchange of the Delayer's. nil: they stay.
	To *string

	// NewDelay is how long messages that delayer serve has parked wait when they are sent, a text
	// such as 30m; empty: as their publishers have said.
	NewDelay string

	// Bundle says what is known of a message that holds others, as those do in which messages of
	// backend controller wait; nil of all others. Set before Read.
	Bundle func(contentType string, body []byte) *Bundle

	opts    broker.Options
	prefix  string // "" for parked messages
	stage   delivery.Stage
	queues  []string
	held    []string     // those that Read has found messages in
	missing string       // what to do where the last of queues does not exist; the others may be missing
	conn    *broker.Conn // what is read
	control *broker.Control
}

// OpenUnroutable connects to the broker. It does not check that the queue exists.
func OpenUnroutable(ctx context.Context, opts broker.Options, prefix string) (*Client, error) {
	const anyMode = false
	stage := delivery.NewStage(prefix, anyMode)
	opts.Name = "delayer " + prefix + " unroutable"
	return open(ctx, &Client{
		opts: opts, prefix: prefix, stage: stage, queues: []string{stage.Misrouted(), stage.Unroutable()},
		missing: "a Delayer declares it when it is opened: are prefix, broker and virtual host those of a Delayer?",
	})
}

// OpenParked is OpenUnroutable for a queue of parked messages.
func OpenParked(ctx context.Context, opts broker.Options, queue string) (*Client, error) {
	opts.Name = "delayer parked"
	return open(ctx, &Client{
		opts: opts, queues: []string{queue},
		missing: "a consumer of package retry declares it when it starts: is the name right?",
	})
}

func open(ctx context.Context, c *Client) (*Client, error) {
	reading := c.opts
	reading.AnyHeaders = true
	conn, err := broker.Dial(ctx, reading)
	if err != nil {
		return nil, err
	}
	asking, err := broker.Dial(ctx, c.opts)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.conn, c.control = conn, broker.NewControl(asking)
	return c, nil
}

// Close ends the connections.
func (b *Client) Close() {
	b.conn.Close()
	b.control.Close()
}

// Queue is the name of the unroutable queue, or that of the parked messages.
func (b *Client) Queue() string { return b.queues[len(b.queues)-1] }

// Where names the queues that Read has found messages in, for people; if none, Queue.
func (b *Client) Where() string { return cmp.Or(strings.Join(b.held, " and "), b.Queue()) }

// Parked reports whether the messages are parked ones, not unroutable ones.
func (b *Client) Parked() bool { return b.prefix == "" }

// Names for the bare booleans of amqp091-go.
const (
	exclusive     = true
	waitForAnswer = false
)

// count counts one queue, and waits for one that is slow. Those before the last may be missing.
func (b *Client) count(ctx context.Context, queue string) (int, error) {
	for {
		q, known, err := b.control.Count(ctx, queue)
		if known || err != nil {
			if broker.Code(err) == amqp091.NotFound && queue != b.Queue() {
				return 0, nil
			}
			return q.Messages, b.explain("look at", queue, err)
		}
		if err := pace.Sleep(ctx, slowFor); err != nil {
			return 0, b.explain("look at", queue, fmt.Errorf("it did not answer: %w", err))
		}
	}
}

const slowFor = 50 * time.Millisecond

func (b *Client) explain(op, queue string, err error) error {
	if err == nil {
		return nil
	}
	object := fmt.Sprintf("queue %q", queue)
	if broker.Code(err) == amqp091.NotFound {
		return &delayer.Error{
			Op: op, Object: object, Kind: delayer.ErrNotFound, Cause: errors.New("there is no such queue"),
			Hint: b.missing,
		}
	}
	return broker.Explain(op, "", object, err)
}

// Exists asks for a destination.
func (b *Client) Exists(ctx context.Context, exchange, key string) (delivery.Presence, error) {
	return delivery.Exists(ctx, b.control, exchange, key)
}
