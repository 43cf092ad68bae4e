package rabbitworld

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/conformance"
)

// A link is a connection that comes back, and consumers that do.
type link struct {
	url       string
	consumers sync.WaitGroup

	// closing is the link's own lifetime, and no caller's context: consumers outlive the call that made them.
	closing context.Context
	end     context.CancelFunc

	mu   sync.Mutex
	conn *amqp091.Connection
}

// retryPause is the time between attempts to reach a broker that is down.
const retryPause = 50 * time.Millisecond

func dial(ctx context.Context, url string) (*link, error) {
	l := &link{url: url}
	l.closing, l.end = context.WithCancel(context.Background())
	if _, err := l.connect(); err != nil {
		l.end()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return l, ctx.Err()
}

// connect returns the connection, a new one if there is none alive.
func (l *link) connect() (*amqp091.Connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Err() != nil {
		return nil, amqp091.ErrClosed
	}
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, nil
	}
	const handshake = 10 * time.Second
	conn, err := amqp091.DialConfig(l.url, amqp091.Config{
		Dial:       amqp091.DefaultDial(handshake),
		Heartbeat:  10 * time.Second,
		Properties: amqp091.Table{"connection_name": "conformance: the world"},
	})
	if err != nil {
		return nil, err
	}
	l.conn = conn
	return conn, nil
}

// do runs f on a channel of its own, once more for each connection that was lost meanwhile: what it does must
// bear to be done again.
func (l *link) do(ctx context.Context, f func(*amqp091.Channel) error) error {
	for {
		err := l.once(f)
		if err == nil || !lost(err) {
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-l.closing.Done():
			return err
		}
	}
}

// errLost marks an error that came of a connection that is not there.
var errLost = errors.New("no connection")

func lost(err error) bool { return errors.Is(err, errLost) }

func (l *link) once(f func(*amqp091.Channel) error) error {
	conn, err := l.connect()
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	ch, err := conn.Channel()
	if err == nil {
		err = f(ch)
		_ = ch.Close() // An error of f has closed it already.
	}
	if err != nil && conn.IsClosed() {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// consume tells arrived of a queue's messages until the queue is deleted or the link closed.
func (l *link) consume(ctx context.Context, queue string, arrived func(conformance.Arrival)) error {
	subscribed := make(chan error, 1)
	l.consumers.Go(func() {
		err := l.do(l.closing, func(ch *amqp091.Channel) error { return deliver(ch, queue, arrived, subscribed) })
		select {
		case subscribed <- err: // It never came to that; or nobody asks any more.
		default:
		}
	})
	select {
	case err := <-subscribed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deliver consumes on one channel. It returns nil when the queue was deleted.
func deliver(ch *amqp091.Channel, queue string, arrived func(conformance.Arrival), subscribed chan<- error) error {
	const prefetch, bytes, global = 500, 0, false
	if err := ch.Qos(prefetch, bytes, global); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queue, "", autoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return err
	}
	select {
	case subscribed <- nil:
	default: // Subscribed again; nobody waits for it.
	}
	for d := range deliveries {
		arrived(conformance.Arrival{Delivery: d, At: time.Now()})
		if err := ch.Ack(d.DeliveryTag, multiple); err != nil {
			// The broker delivers it again. What failed may have been a write, after which the channel does not
			// know yet that it is closed.
			return fmt.Errorf("%w: %w", errLost, err)
		}
	}
	if ch.IsClosed() {
		return amqp091.ErrClosed
	}
	return nil
}

// close closes the connection, and returns when all consumers have ended.
func (l *link) close() error {
	l.mu.Lock()
	l.end()
	conn := l.conn
	l.mu.Unlock()
	var err error
	if !conn.IsClosed() {
		err = conn.Close()
	}
	l.consumers.Wait()
	return err
}
