// Package rabbitworld is the [conformance.World] of a real RabbitMQ at an AMQP URL.
//
// It uses only AMQP, so it cannot cut connections or restart the broker by itself. Pass functions
// that can in [Config]. Without them the cases that need them are skipped with the reason.
package rabbitworld

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/internal/amqpclient"
)

// Config describes the broker, and what can be done to it.
type Config struct {
	// URL is the broker's AMQP URL. Its user must be allowed to configure, write and read
	// everything.
	URL string

	// Unroutable is the queue in which the Delayers under test keep unroutable messages. It is
	// consumed and empty afterwards. "": there is none.
	Unroutable string

	// QueueType is the type of the queues that messages are delivered to; "" means classic.
	QueueType string

	// Cut closes all connections of the Delayers under test, and perhaps others, from the broker's
	// side. nil: cases that need it are skipped.
	Cut func(ctx context.Context) error

	// Restart stops the broker, starts it again, and returns when it answers. nil: cases that need
	// it are skipped. Like Cut it may return [conformance.Unable].
	Restart func(ctx context.Context) error
}

// Worlds opens the Worlds of one run of the suite.
type Worlds struct {
	cfg    Config
	client *amqpclient.Client // consumes the queue of unroutable messages

	mu         sync.Mutex
	collecting bool
	unroutable []conformance.Arrival
	watchers   []func(conformance.Arrival)
}

// Connect connects to the broker. The caller closes what it returns, after the suite has run.
func Connect(ctx context.Context, cfg Config) (*Worlds, error) {
	if cfg.QueueType == "" {
		cfg.QueueType = "classic"
	}
	client, err := open(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	return &Worlds{cfg: cfg, client: client}, nil
}

func open(ctx context.Context, url string) (*amqpclient.Client, error) {
	return amqpclient.Open(ctx, amqpclient.Options{URLs: []string{url}, Name: "conformance: the world"})
}

// Close closes the broker's connection.
func (b *Worlds) Close() error { return b.client.Close() }

// World opens a World with a connection of its own, for [conformance.Harness].World.
func (b *Worlds) World(ctx context.Context) (conformance.World, error) {
	client, err := open(ctx, b.cfg.URL)
	if err != nil {
		return nil, err
	}
	return &world{broker: b, client: client}, nil
}

// collect consumes the queue of unroutable messages, once, for all Worlds.
func (b *Worlds) collect(ctx context.Context) error {
	if b.cfg.Unroutable == "" {
		return conformance.Unable("unroutable: no queue for unroutable messages is known")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.collecting {
		return nil
	}
	if err := consume(ctx, b.client, b.cfg.Unroutable, b.collected); err != nil {
		return fmt.Errorf("queue for unroutable messages: %w", err)
	}
	b.collecting = true
	return nil
}

func consume(
	ctx context.Context, c *amqpclient.Client, queue string, arrived func(conformance.Arrival),
) error {
	_, err := c.Consume(ctx, queue, func(d amqp091.Delivery, at time.Time) {
		arrived(conformance.Arrival{Delivery: d, At: at})
	})
	return err
}

// collected keeps a message for later watchers, and passes it to present ones.
func (b *Worlds) collected(a conformance.Arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unroutable = append(b.unroutable, a)
	for _, w := range b.watchers {
		w(a)
	}
}

// watch calls arrived for all unroutable messages, past and future.
func (b *Worlds) watch(arrived func(conformance.Arrival)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.unroutable {
		arrived(a)
	}
	b.watchers = append(b.watchers, arrived)
}

var errNacked = errors.New("the broker refused the message")

// publish publishes and waits for the confirm.
func publish(ctx context.Context, ch *amqp091.Channel, exchange, key string, msg amqp091.Publishing) error {
	const noWait, mandatory, immediate = false, false, false
	if err := ch.Confirm(noWait); err != nil {
		return err
	}
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	if err != nil {
		return err
	}
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return err
	case !acked && ch.IsClosed():
		return amqp091.ErrClosed
	case !acked:
		return errNacked
	}
	return nil
}
