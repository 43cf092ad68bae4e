package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
)

// A destination is the queue that messages are delayed to, and its only consumer, on a connection
// of its own so that publishing and consuming do not slow each other down.
//
// Usually messages need no acknowledgement, and the loss of the consumer is an error. In an outage
// the consumer returns: it reconnects, and acknowledges each message once it is recorded. Otherwise
// messages on their way to it when the broker was killed would look lost; they may come twice
// instead.
type destination struct {
	url, queue string
	returns    bool
	arrival    func(id string)
	done       chan struct{} // closed when nothing more can arrive
	quit       context.CancelFunc

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

func openDestination(ctx context.Context, env Env, returns bool, arrival func(id string)) (*destination, error) {
	d := &destination{
		url: env.URL, queue: env.Destination, returns: returns, arrival: arrival, done: make(chan struct{}),
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
func (d *destination) connect(ctx context.Context) (<-chan amqp091.Delivery, error) {
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

func (d *destination) consume(conn *amqp091.Connection) (*amqp091.Channel, <-chan amqp091.Delivery, error) {
	const durable, autoDelete, exclusive, noLocal, noWait = true, false, false, false, false
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	const noSize, wholeChannel = 0, false
	if err := ch.Qos(unacknowledged, noSize, wholeChannel); err != nil {
		return nil, nil, err
	}
	// An explicit type: a virtual host may have another as its default.
	args := amqp091.Table{"x-queue-type": "classic"}
	if _, err := ch.QueueDeclare(d.queue, durable, autoDelete, exclusive, noWait, args); err != nil {
		return nil, nil, err
	}
	deliveries, err := ch.Consume(d.queue, "", !d.returns, exclusive, noLocal, noWait, nil)
	return ch, deliveries, err
}

// run records what arrives until the connection is lost; if the consumer returns, until ctx ends.
func (d *destination) run(ctx context.Context, deliveries <-chan amqp091.Delivery) {
	defer close(d.done)
	for deliveries != nil {
		for delivery := range deliveries {
			d.arrival(delivery.MessageId)
			if d.returns {
				const multiple = false
				_ = delivery.Ack(multiple) // what cannot be acknowledged comes again, and is counted
			}
		}
		deliveries = d.reconnect(ctx)
	}
}

// reconnect tries until it succeeds. It returns nil if ctx ends or the consumer does not return.
func (d *destination) reconnect(ctx context.Context) <-chan amqp091.Delivery {
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

// lost says that the consumer is gone for good: missing messages may have arrived unseen.
func (d *destination) lost() bool {
	_, ch := d.current()
	return !d.returns && ch.IsClosed()
}

// remove deletes the queue and closes the connection.
func (d *destination) remove() error {
	d.quit()
	const ifUnused, ifEmpty, noWait = false, false, false
	conn, ch := d.current()
	_, deleted := ch.QueueDelete(d.queue, ifUnused, ifEmpty, noWait)
	closed := conn.CloseDeadline(time.Now().Add(closeTimeout))
	<-d.done
	return errors.Join(deleted, closed)
}
