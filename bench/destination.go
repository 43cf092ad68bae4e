package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
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
//
// Usually messages need no acknowledgement, and the loss of the consumers is an error. In an outage
// they return: they reconnect, and acknowledge each message once it is recorded. Otherwise
// messages on their way when the broker was killed would look lost; they may come twice
// instead.
type destination struct {
	Receiving
	url, exchange, queue string // exchange: "" for the default exchange
	returns              bool
	arrival              func(id string)
	done                 chan struct{} // closed when nothing more can arrive
	quit                 context.CancelFunc

	mu   sync.Mutex
	conn *amqp091.Connection
	ch   *amqp091.Channel
}

const (
	// closeTimeout bounds the goodbye to a broker that may be gone.
	closeTimeout = 5 * time.Second
	// redialPause is between two attempts to reconnect: short, because it makes messages late.
	redialPause = 20 * time.Millisecond
	// unacknowledged is how many messages the broker sends ahead to a consumer that acknowledges.
	unacknowledged = 200
)

func openDestination(ctx context.Context, env Env, r Receiving, returns bool, arrival func(id string)) (*destination, error) {
	d := &destination{
		Receiving: r, url: env.URL, queue: env.Destination, returns: returns, arrival: arrival, done: make(chan struct{}),
	}
	if r.Exchange {
		d.exchange = env.Destination + "-exchange"
	}
	deliveries, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, d.quit = context.WithCancel(context.WithoutCancel(ctx))
	go d.run(ctx, deliveries)
	return d, nil
}

// connect dials, declares the queue and consumes.
func (d *destination) connect(ctx context.Context) ([]<-chan amqp091.Delivery, error) {
	conn, err := amqpclient.Dial(ctx, d.url, d.queue)
	if err != nil {
		return nil, err
	}
	ch, deliveries, err := d.consume(conn)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("destination queue %s: %w", d.queue, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil { // nobody would close it any more
		_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
		return nil, ctx.Err()
	}
	d.conn, d.ch = conn, ch
	return deliveries, nil
}

func (d *destination) consume(conn *amqp091.Connection) (ch *amqp091.Channel, all []<-chan amqp091.Delivery, err error) {
	for range max(1, d.Consumers) {
		if ch, err = conn.Channel(); err != nil {
			return nil, nil, err
		}
		if len(all) == 0 {
			if err = d.declare(ch); err != nil {
				return nil, nil, err
			}
		}
		const noSize, wholeChannel = 0, false
		if err = ch.Qos(unacknowledged, noSize, wholeChannel); err != nil {
			return nil, nil, err
		}
		const exclusive, noLocal, noWait = false, false, false
		deliveries, err := ch.Consume(d.queue, "", !d.acknowledges(), exclusive, noLocal, noWait, nil)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, deliveries)
	}
	return ch, all, nil
}

func (d *destination) acknowledges() bool { return d.returns || d.Quorum }

func (d *destination) declare(ch *amqp091.Channel) error {
	const durable, autoDelete, exclusive, internal, noWait = true, false, false, false, false
	// An explicit type: a virtual host may have another as its default.
	args := amqp091.Table{"x-queue-type": "classic"}
	if d.Quorum {
		args["x-queue-type"] = "quorum"
	}
	if _, err := ch.QueueDeclare(d.queue, durable, autoDelete, exclusive, noWait, args); err != nil || d.exchange == "" {
		return err
	}
	if err := ch.ExchangeDeclare(d.exchange, amqp091.ExchangeDirect, durable, autoDelete, internal, noWait, nil); err != nil {
		return err
	}
	return ch.QueueBind(d.queue, d.queue, d.exchange, noWait, nil)
}

// run records what arrives until the connection is lost; if the consumers return, until ctx ends.
func (d *destination) run(ctx context.Context, all []<-chan amqp091.Delivery) {
	defer close(d.done)
	for all != nil {
		var consumers sync.WaitGroup
		for _, deliveries := range all {
			consumers.Go(func() { d.receive(deliveries) })
		}
		consumers.Wait()
		all = d.reconnect(ctx)
	}
}

func (d *destination) receive(deliveries <-chan amqp091.Delivery) {
	for delivery := range deliveries {
		d.arrival(delivery.MessageId)
		if d.acknowledges() {
			const multiple = false
			_ = delivery.Ack(multiple) // what cannot be acknowledged comes again, and is counted
		}
	}
}

// reconnect tries until it succeeds. It returns nil if ctx ends or the consumers do not return.
func (d *destination) reconnect(ctx context.Context) []<-chan amqp091.Delivery {
	for d.returns && ctx.Err() == nil {
		if deliveries, err := d.connect(ctx); err == nil {
			return deliveries
		}
		_ = pause(ctx, redialPause)
	}
	return nil
}

func (d *destination) current() (*amqp091.Connection, *amqp091.Channel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn, d.ch
}

// lost says that a consumer is gone for good: missing messages may have arrived unseen.
func (d *destination) lost() bool {
	_, ch := d.current()
	return !d.returns && ch.IsClosed()
}

// remove deletes the queue and the exchange, and closes the connection.
func (d *destination) remove() error {
	d.quit()
	const ifUnused, ifEmpty, noWait = false, false, false
	conn, ch := d.current()
	_, deleted := ch.QueueDelete(d.queue, ifUnused, ifEmpty, noWait)
	if d.exchange != "" {
		deleted = errors.Join(deleted, ch.ExchangeDelete(d.exchange, ifUnused, noWait))
	}
	closed := conn.CloseDeadline(time.Now().Add(closeTimeout))
	<-d.done
	return errors.Join(deleted, closed)
}
