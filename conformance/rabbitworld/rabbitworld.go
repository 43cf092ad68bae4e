// Package rabbitworld is the [conformance.World] of a real RabbitMQ at an AMQP URL.
//
// It uses only AMQP, so it cannot cut connections or restart the broker by itself. Pass functions
// that can in [Config].
package rabbitworld

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/topology"
)

// Config describes the broker and how to disturb it. Without one of the fields below URL, the cases
// that need it are skipped. Functions may return [conformance.Unable].
type Config struct {
	// URL is the broker's AMQP URL. Its user needs the permissions to configure, write and read
	// everything.
	URL string

	// Unroutable is the queue in which the Delayers under test keep unroutable messages. The suite
	// empties it.
	Unroutable string

	// Cut closes all connections of the Delayers under test, and perhaps others, from the broker's
	// side.
	Cut func(ctx context.Context) error

	// Suspend makes a quorum queue neither confirm nor deliver until resume is called, once: see
	// [conformance.World].DeclareStuckQueue.
	Suspend func(ctx context.Context, queue string) (resume func(ctx context.Context) error, err error)

	// OwnExchange is an exchange that the Delayers under test declare, and through which messages
	// for exchanges pass once they are due. The suite deletes it while messages wait, and expects
	// them all.
	OwnExchange string

	// Restart stops the broker, starts it again, and returns once it answers.
	Restart func(ctx context.Context) error

	// Clock is the broker's, if it can be put forward: see [conformance.Clock]. Connections need
	// the heartbeat 0 then, at both ends.
	Clock conformance.Clock
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

// Open connects to the broker. Close it after the suite has run.
func Open(ctx context.Context, cfg Config) (*Worlds, error) {
	client, err := connect(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	return &Worlds{cfg: cfg, client: client}, nil
}

func connect(ctx context.Context, url string) (*amqpclient.Client, error) {
	return amqpclient.Open(ctx, amqpclient.Options{URLs: []string{url}, Name: "conformance: the world"})
}

// Close ends the connection.
func (b *Worlds) Close() { b.client.Close() }

// World opens a World with a connection of its own, for [conformance.Harness].World.
func (b *Worlds) World(ctx context.Context) (conformance.World, error) {
	client, err := connect(ctx, b.cfg.URL)
	if err != nil {
		return nil, err
	}
	return &world{broker: b, client: client}, nil
}

func consume(ctx context.Context, c *amqpclient.Client, queue string, arrived func(conformance.Arrival)) error {
	_, err := c.Consume(ctx, queue, func(d amqp091.Delivery, at time.Time) {
		arrived(conformance.Arrival{Delivery: d, At: at})
	})
	return err
}

const noWait = false // the argument of amqp091-go's methods

// A world remembers what it declared, and deletes it when it is closed.
type world struct {
	broker *Worlds
	client *amqpclient.Client

	mu       sync.Mutex
	declared topology.Plan
	resumes  []func(context.Context) error // for the queues that are suspended
}

var _ conformance.World = (*world)(nil)

func (w *world) DeclareQueue(ctx context.Context, name string) error {
	return w.declare(ctx, queue(name, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeClassic}))
}

// DeclareFullQueue declares a classic queue. A quorum queue takes some messages more than its
// maximum.
func (w *world) DeclareFullQueue(ctx context.Context, name string) error {
	return w.declare(ctx, queue(name, amqp091.Table{
		amqp091.QueueTypeArg: amqp091.QueueTypeClassic, amqp091.QueueMaxLenArg: int64(0), amqp091.QueueOverflowArg: amqp091.QueueOverflowRejectPublish,
	}))
}

func (w *world) DeclareStuckQueue(ctx context.Context, name string) (resume func(context.Context) error, err error) {
	if w.broker.cfg.Suspend == nil {
		return nil, conformance.Unable("suspend a queue: Config.Suspend is nil")
	}
	if err := w.declare(ctx, queue(name, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum})); err != nil {
		return nil, err
	}
	again, err := w.broker.cfg.Suspend(ctx, name)
	if err != nil {
		return nil, err
	}
	var once sync.Once
	resume = func(ctx context.Context) (err error) {
		once.Do(func() { err = again(ctx) })
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resumes = append(w.resumes, resume)
	return resume, nil
}

func (w *world) declare(ctx context.Context, p topology.Plan) error {
	w.mu.Lock()
	w.declared.Queues = append(w.declared.Queues, p.Queues...)
	w.declared.Exchanges = append(w.declared.Exchanges, p.Exchanges...)
	w.mu.Unlock()
	return w.client.Declare(ctx, p)
}

func queue(name string, args amqp091.Table) topology.Plan {
	return topology.Plan{Queues: []topology.Queue{{Name: name, Args: args}}}
}

func exchange(name, kind string) topology.Plan {
	return topology.Plan{Exchanges: []topology.Exchange{{Name: name, Kind: kind}}}
}

func (w *world) DeleteQueue(ctx context.Context, name string) error {
	return w.client.Remove(ctx, queue(name, nil))
}

func (w *world) DeclareExchange(ctx context.Context, name, kind string) error {
	return w.declare(ctx, exchange(name, kind))
}

func (w *world) DeleteExchange(ctx context.Context, name string) error {
	return w.client.Remove(ctx, exchange(name, ""))
}

func (w *world) Bind(ctx context.Context, queue, key, exchange string, args amqp091.Table) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return ch.QueueBind(queue, key, exchange, noWait, args) })
}

func (w *world) Unbind(ctx context.Context, queue, key, exchange string, args amqp091.Table) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return ch.QueueUnbind(queue, key, exchange, args) })
}

func (w *world) Publish(ctx context.Context, exchange, key string, msg amqp091.Publishing) error {
	return w.client.Do(ctx, func(ch *amqp091.Channel) error {
		if err := ch.Confirm(noWait); err != nil {
			return err
		}
		return amqpclient.Publish(ctx, ch, exchange, key, msg)
	})
}

func (w *world) Consume(ctx context.Context, queue string, arrived func(conformance.Arrival)) error {
	return consume(ctx, w.client, queue, arrived)
}

// Unroutable serves all Worlds by one consumer.
func (w *world) Unroutable(ctx context.Context, arrived func(conformance.Arrival)) error {
	b := w.broker
	if b.cfg.Unroutable == "" {
		return conformance.Unable("unroutable: no queue for unroutable messages is known")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.collecting {
		err := consume(ctx, b.client, b.cfg.Unroutable, func(a conformance.Arrival) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.unroutable = append(b.unroutable, a)
			for _, w := range b.watchers {
				w(a)
			}
		})
		if err != nil {
			return fmt.Errorf("queue for unroutable messages: %w", err)
		}
		b.collecting = true
	}
	for _, a := range b.unroutable {
		arrived(a)
	}
	b.watchers = append(b.watchers, arrived)
	return nil
}

func (w *world) Cut(ctx context.Context) error {
	if w.broker.cfg.Cut == nil {
		return conformance.Unable("cut: Config.Cut is nil")
	}
	return w.broker.cfg.Cut(ctx)
}

func (w *world) DeleteOwnExchange(ctx context.Context) error {
	if w.broker.cfg.OwnExchange == "" {
		return conformance.Unable("delete an exchange of the Delayers': Config.OwnExchange is empty")
	}
	return w.DeleteExchange(ctx, w.broker.cfg.OwnExchange)
}

func (w *world) Restart(ctx context.Context) error {
	if w.broker.cfg.Restart == nil {
		return conformance.Unable("restart: Config.Restart is nil")
	}
	if err := w.broker.cfg.Restart(ctx); err != nil {
		return err
	}
	return w.client.Do(ctx, func(ch *amqp091.Channel) error { return ch.Confirm(noWait) }) // the broker answers
}

func (w *world) Clock(context.Context) (conformance.Clock, error) {
	if w.broker.cfg.Clock == nil {
		return nil, conformance.Unable("put the clock forward: Config.Clock is nil")
	}
	return w.broker.cfg.Clock, nil
}

func (w *world) Close() error {
	defer w.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	for _, resume := range w.resumes { // to delete a queue that is suspended would hang
		errs = append(errs, resume(ctx))
	}
	return errors.Join(append(errs, w.client.Remove(ctx, w.declared))...)
}
