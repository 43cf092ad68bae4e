package faults

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/topology"
)

const noWait = false // the argument of amqp091-go's methods

// A receiver is the consumer's side of a run: the destinations, and what is taken from them.
type receiver struct {
	run    *Run
	client *amqpclient.Client
	pause  func() // ends the consumer of the destination
	ignore func() // ends the consumer of the unroutable queue; nil if there is none

	// unroutable has a connection of its own: what delays one queue shall not delay the other.
	unroutable *amqpclient.Client
}

// openClient connects to brokers that are about to fail: it tries again what they refuse meanwhile.
func openClient(ctx context.Context, urls []string) (*amqpclient.Client, error) {
	later := func(err error) bool { // the broker may answer otherwise
		return !refusedWith(err, amqp091.PreconditionFailed) && !refusedWith(err, amqp091.ResourceLocked)
	}
	return amqpclient.Open(ctx, amqpclient.Options{URLs: urls, Name: "faults", Retry: later})
}

func openReceiver(ctx context.Context, r *Run, urls []string) (*receiver, error) {
	client, err := openClient(ctx, urls)
	if err != nil {
		return nil, err
	}
	c := &receiver{run: r, client: client}
	if err := errors.Join(c.declare(ctx, nil), c.resume(ctx)); err != nil {
		client.Close()
		return nil, err
	}
	return c, nil
}

// destinations are the queue and the exchange where messages arrive. The queue is a quorum queue
// whatever the Delayer has: what is lost is the Delayer's loss.
func (c *receiver) destinations(more amqp091.Table) topology.Plan {
	args := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeQuorum}
	maps.Copy(args, more)
	queue, exchange := c.run.Queue(), c.run.Exchange()
	return topology.Plan{
		Queues:    []topology.Queue{{Name: queue, Args: args}},
		Exchanges: []topology.Exchange{{Name: exchange, Kind: amqp091.ExchangeTopic}},
		Bindings:  []topology.Binding{{Source: exchange, Key: "to.#", Target: queue}},
	}
}

func (c *receiver) declare(ctx context.Context, more amqp091.Table) error {
	return c.client.Declare(ctx, c.destinations(more))
}

func (c *receiver) resume(ctx context.Context) error {
	pause, err := c.client.Consume(ctx, c.run.Queue(), c.arrived)
	if err == nil {
		c.pause = pause
	}
	return err
}

// renew consumes on a new channel, so that the broker gives out again what was not acknowledged.
func (c *receiver) renew(ctx context.Context) error {
	c.pause()
	err := c.resume(ctx)
	if c.ignore != nil {
		c.ignore()
		err = errors.Join(err, c.notice(ctx))
	}
	return err
}

func (c *receiver) collect(ctx context.Context, urls []string, queue string) (err error) {
	if queue == "" {
		return nil
	}
	if c.unroutable, err = openClient(ctx, urls); err != nil {
		return err
	}
	return c.notice(ctx)
}

func (c *receiver) notice(ctx context.Context) error {
	ignore, err := c.unroutable.Consume(ctx, c.run.Subject.Unroutable(c.run.Prefix), c.kept)
	if err == nil {
		c.ignore = ignore
	}
	return err
}

func (c *receiver) arrived(d amqp091.Delivery, at time.Time) {
	if id, ok := c.number(d.Body); ok {
		if d.Redelivered {
			c.run.Account.Redelivered(id, c.run.Account.At(at))
		} else {
			c.run.Account.Arrive(id, c.run.Account.At(at))
		}
		return
	}
	c.run.Account.Arrive(nobodys, c.run.Account.At(at))
}

// nobodys is the number of what no run has published.
const nobodys = -1

func (c *receiver) kept(d amqp091.Delivery, at time.Time) {
	if id, ok := c.number(d.Body); ok {
		c.run.Account.Keep(id, c.run.Account.At(at))
	}
}

func (c *receiver) number(body []byte) (int, bool) {
	prefix, text, _ := strings.Cut(string(body), " ")
	id, err := strconv.Atoi(text)
	return id, err == nil && prefix == c.run.Prefix
}

func (c *receiver) remove(ctx context.Context) error {
	return c.client.Remove(ctx, c.destinations(nil))
}

func (c *receiver) delete(ctx context.Context, queue string) error {
	return c.client.Remove(ctx, topology.Plan{Queues: []topology.Queue{{Name: queue}}})
}

// close ends the consumers and removes the destinations: a consumer begins again where its queue is
// gone.
func (c *receiver) close() error {
	c.pause()
	if c.ignore != nil {
		c.ignore()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.remove(ctx)
	c.client.Close()
	if c.unroutable != nil {
		c.unroutable.Close()
	}
	return err
}

func refusedWith(err error, code int) bool {
	var refused *amqp091.Error
	return errors.As(err, &refused) && refused.Server && refused.Code == code
}
