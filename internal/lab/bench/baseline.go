package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
)

// A baseline is a Delayer with one destination, whatever the exchange and key of a message. It has
// one connection with one channel in confirm mode and deferred confirms, so that any number of
// goroutines pipeline over it, and publishes persistent messages. It does not ask for returns
// (mandatory) and adds no header, which spares it work that a Delayer does.
type baseline struct {
	delayer.NoTickets
	design
	conn *amqp091.Connection
	ch   *amqp091.Channel
}

func openBaseline(ctx context.Context, env Env, of design) (delayer.Delayer, error) {
	err := atBroker(ctx, env, func(c *amqpclient.Client) error { return c.Declare(ctx, of.topology) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the baseline: %w", err), removeBaseline(ctx, env, of))
	}
	b := &baseline{design: of}
	if b.conn, err = amqpclient.Dial(ctx, env.URL, env.Prefix); err != nil {
		return nil, err
	}
	if b.ch, err = b.conn.Channel(); err == nil {
		const noWait = false
		err = b.ch.Confirm(noWait)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the baseline: %w", err), b.Close())
	}
	return b, nil
}

// removeBaseline deletes every exchange and queue that openBaseline declares, with the messages in
// them.
func removeBaseline(ctx context.Context, env Env, of design) error {
	return atBroker(ctx, env, func(c *amqpclient.Client) error { return c.Remove(ctx, of.topology) })
}

// atBroker does something on a connection of its own.
func atBroker(ctx context.Context, env Env, do func(*amqpclient.Client) error) error {
	client, err := amqpclient.Open(ctx, amqpclient.Options{URLs: []string{env.URL}, Name: env.Prefix})
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

func (b *baseline) Publish(
	ctx context.Context, _, _ string, delay time.Duration, msg amqp091.Publishing,
) error {
	if delay < 0 || delay > b.limits.Max {
		return &delayer.Error{Op: "publish", Object: delay.String(), Kind: delayer.ErrOutOfRange}
	}
	ticks := int64((delay + b.limits.Resolution - 1) / b.limits.Resolution)
	msg.DeliveryMode = amqp091.Persistent
	exchange, key := b.route(ticks, &msg)
	return amqpclient.Publish(ctx, b.ch, exchange, key, msg)
}

func (b *baseline) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, b.Publish, messages)
}

// Limits tells the longest delay and the resolution; no guarantee is declared.
func (b *baseline) Limits() delayer.Limits { return b.limits }

// Close may be called more than once.
func (b *baseline) Close() error {
	const timeout = 5 * time.Second // a broker that is gone must not delay the end of a benchmark
	err := b.conn.CloseDeadline(time.Now().Add(timeout))
	if errors.Is(err, amqp091.ErrClosed) {
		return nil
	}
	return err
}
