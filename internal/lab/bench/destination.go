package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/topology"
)

// A Receiving is how the messages of a benchmark are received. Its zero value costs a broker the
// least: they are published to a classic queue by its name, and one consumer gets them without
// acknowledging.
type Receiving struct {
	// Exchange: they are published to a direct exchange, to which the queue is bound. Baselines,
	// and serve, lead to a queue by an exchange of their own in any case.
	Exchange bool
	// Quorum: the queue is a quorum queue, and each message is acknowledged.
	Quorum bool
	// Consumers is how many there are, each on a channel of its own; 1 where 0.
	Consumers int
}

// String is for the report; "" for the zero value.
func (r Receiving) String() string {
	var parts []string
	if r.Exchange {
		parts = append(parts, "published to an exchange")
	}
	if r.Quorum {
		parts = append(parts, "received from a quorum queue with acknowledgements")
	}
	if r.Consumers > 1 {
		parts = append(parts, fmt.Sprintf("by %d consumers", r.Consumers))
	}
	return strings.Join(parts, ", ")
}

// A destination is the queue that messages are delayed to, and its only consumers, on a connection
// of their own so that publishing and consuming do not slow each other down.
type destination struct {
	Receiving
	exchange, queue string // exchange: "" for the default exchange
	client          *amqpclient.Client
	stop            []func() // ends a consumer
}

func openDestination(ctx context.Context, env Env, r Receiving, arrival func(id string)) (*destination, error) {
	d := &destination{Receiving: r, queue: env.Destination}
	if r.Exchange {
		d.exchange = env.Destination + "-exchange"
	}
	var err error
	d.client, err = amqpclient.Open(ctx, amqpclient.Options{
		URLs: []string{env.URL}, Name: env.Destination, AutoAck: !r.Quorum,
	})
	if err != nil {
		return nil, err
	}
	err = d.client.Declare(ctx, d.topology())
	for range max(1, r.Consumers) {
		var stop func()
		if err == nil {
			stop, err = d.client.Consume(ctx, d.queue, func(m amqp091.Delivery, _ time.Time) { arrival(m.MessageId) })
		}
		if err == nil {
			d.stop = append(d.stop, stop)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("destination queue %s: %w", d.queue, err), d.remove(ctx))
	}
	return d, nil
}

func (d *destination) topology() topology.Plan {
	// An explicit type: a virtual host may have another as its default.
	args := amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeClassic}
	if d.Quorum {
		args[amqp091.QueueTypeArg] = amqp091.QueueTypeQuorum
	}
	p := topology.Plan{Queues: []topology.Queue{{Name: d.queue, Args: args}}}
	if d.exchange != "" {
		p.Exchanges = []topology.Exchange{{Name: d.exchange, Kind: amqp091.ExchangeDirect}}
		p.Bindings = []topology.Binding{{Source: d.exchange, Key: d.queue, Target: d.queue}}
	}
	return p
}

// remove ends the consumers, deletes the queue and the exchange, and closes the connection.
func (d *destination) remove(ctx context.Context) error {
	for _, stop := range d.stop {
		stop()
	}
	defer d.client.Close()
	return d.client.Remove(ctx, d.topology())
}
