// Package amqpclient is the AMQP client of the tools around the library: the conformance suite, the
// fault campaign, the benchmark and the launcher of brokers.
//
// It shares no code with internal/lib/broker, so that the library is not tested with itself.
package amqpclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	retryPause   = 50 * time.Millisecond // between two attempts
	closeTimeout = 5 * time.Second       // the broker may be gone
)

// Options configure a [Client].
type Options struct {
	// URLs are the addresses of a broker, tried in turn.
	URLs []string
	// Name is the connection's name in the broker's tools.
	Name string
	// Retry reports whether to repeat an operation that the broker refused. nil: never. An
	// operation that failed because the connection was lost is always repeated.
	Retry func(error) bool
	// AutoAck makes consumers receive without acknowledging: messages on their way when the
	// connection is lost are lost. See [Client.Interrupted].
	AutoAck bool
}

// A Client holds one connection and replaces it when it is lost. Its methods may be called from
// several goroutines.
type Client struct {
	options     Options
	consumers   sync.WaitGroup
	interrupted atomic.Bool

	// ctx lives as long as the Client: consumers outlive the call that started them.
	ctx context.Context
	end context.CancelFunc

	mu   sync.Mutex
	conn *amqp091.Connection
	idle *amqp091.Channel // nil, or one that the next Do may take
	turn int              // index of the URL to dial next
}

// Open connects to the first URL that answers. The caller closes the Client.
func Open(ctx context.Context, o Options) (*Client, error) {
	c := &Client{options: o}
	c.ctx, c.end = context.WithCancel(context.Background())
	var errs []error
	for range o.URLs {
		_, err := c.connect(ctx)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	c.end()
	return nil, errors.Join(errs...)
}

// connect returns the connection, a new one if the last was lost.
func (c *Client) connect(ctx context.Context) (*amqp091.Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, amqp091.ErrClosed
	}
	if c.conn != nil && !c.conn.IsClosed() {
		return c.conn, nil
	}
	url := c.options.URLs[c.turn%len(c.options.URLs)]
	c.turn++
	conn, err := Dial(ctx, url, c.options.Name)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	return conn, nil
}

// errLost marks an error whose cause is a lost connection.
var errLost = errors.New("no connection")

// Do runs f on a channel that nobody else uses; f may close it. Do runs f again after each loss of
// the connection and each error that Options.Retry accepts, until ctx ends. So f must be
// idempotent.
func (c *Client) Do(ctx context.Context, f func(*amqp091.Channel) error) error {
	for {
		err := c.once(ctx, f)
		if err == nil || !errors.Is(err, errLost) && !c.retries(err) {
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-c.ctx.Done():
			return err
		}
	}
}

func (c *Client) once(ctx context.Context, f func(*amqp091.Channel) error) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	c.mu.Lock()
	ch := c.idle // to open one costs the broker more than most of what is done on it
	c.idle = nil
	c.mu.Unlock()
	if ch == nil || ch.IsClosed() {
		if ch, err = conn.Channel(); err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
	}
	if err = f(ch); err != nil {
		_ = ch.Close() // or f's error has closed it already
		if conn.IsClosed() {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		return err
	}
	c.mu.Lock()
	ch, c.idle = c.idle, ch
	c.mu.Unlock()
	if ch != nil {
		_ = ch.Close() // another Do has given one back meanwhile
	}
	return nil
}

// retries asks Options.Retry. With several brokers it disconnects, so that another one is tried.
func (c *Client) retries(err error) bool {
	if c.options.Retry == nil || !c.options.Retry(err) {
		return false
	}
	if len(c.options.URLs) > 1 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disconnect()
	}
	return true
}

// disconnect leaves out what the broker answers: it may be gone, or have closed the connection itself.
func (c *Client) disconnect() { _ = c.conn.CloseDeadline(time.Now().Add(closeTimeout)) }

// Close ends the consumers and closes the connection. It may be called more than once.
func (c *Client) Close() {
	c.end()
	c.mu.Lock()
	c.disconnect()
	c.mu.Unlock()
	c.consumers.Wait()
}

// prefetch is how many messages the broker sends ahead of their acknowledgements.
const prefetch = 200

// Consume calls arrived for each message of a queue, then acknowledges it, unless Options.AutoAck
// is set. It returns when the broker has accepted the consumer, which goes on until stop or Close is
// called. It survives the loss of the connection, and the deletion of the queue if Options.Retry
// accepts what the broker answers then.
func (c *Client) Consume(
	ctx context.Context, queue string, arrived func(amqp091.Delivery, time.Time),
) (stop func(), err error) {
	consuming, stop := context.WithCancel(c.ctx)
	accepted := make(chan error, 1)
	c.consumers.Go(func() {
		err := c.Do(consuming, func(ch *amqp091.Channel) error {
			return c.consume(consuming, ch, queue, arrived, accepted)
		})
		offer(accepted, err)
	})
	select {
	case err = <-accepted:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// Interrupted reports whether a consumer has lost its channel since Open: with Options.AutoAck,
// messages may be missing.
func (c *Client) Interrupted() bool { return c.interrupted.Load() }

// consume returns nil when ctx ends.
func (c *Client) consume(
	ctx context.Context, ch *amqp091.Channel, queue string,
	arrived func(amqp091.Delivery, time.Time), accepted chan<- error,
) error {
	const anySize, wholeConnection = 0, false
	if err := ch.Qos(prefetch, anySize, wholeConnection); err != nil {
		return err
	}
	const noLocal = false
	deliveries, err := ch.Consume(queue, "", c.options.AutoAck, exclusive, noLocal, noWait, nil)
	if err != nil {
		return err
	}
	offer(accepted, nil)
	for {
		select {
		case <-ctx.Done():
			_ = ch.Close() // and the consumer with it
			return nil
		case d, ok := <-deliveries:
			if !ok {
				c.interrupted.Store(true)
				if ch.IsClosed() {
					return amqp091.ErrClosed
				}
				return errors.New("the broker cancelled the consumer") // as when its queue is deleted
			}
			arrived(d, time.Now())
			if c.options.AutoAck {
				continue
			}
			const multiple = false
			if err := d.Ack(multiple); err != nil {
				// The write failed; the connection may not know yet that it is closed. The broker
				// redelivers the message.
				return fmt.Errorf("%w: %w", errLost, err)
			}
		}
	}
}

// offer sends err without blocking: only the first answer counts.
func offer(accepted chan<- error, err error) {
	select {
	case accepted <- err:
	default:
	}
}

// Publish publishes a message, which is not mandatory, on a channel in confirm mode, and waits for
// the confirm.
func Publish(ctx context.Context, ch *amqp091.Channel, exchange, key string, msg amqp091.Publishing) error {
	const mandatory, immediate = false, false
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("publish: %w", err)
	case acked:
		return nil
	case ch.IsClosed():
		return errors.New("publish: connection lost") // it resolves its confirms as if they were refused
	}
	return errors.New("publish: refused by the broker")
}

const (
	dialTimeout = 10 * time.Second // of the TCP connection and the AMQP handshake together
	heartbeat   = 10 * time.Second
)

// Dial connects to url under a name that the broker's tools show. Its errors say what to do and
// never contain the password: they name the host alone.
func Dial(ctx context.Context, url, name string) (*amqp091.Connection, error) {
	uri, err := amqp091.ParseURI(url)
	if err != nil { // it quotes the URL with its password
		return nil, errors.New("the URL of the broker cannot be read: give it as amqp://user:password@host:5672/vhost, or amqps:// for TLS")
	}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	conn, err := amqp091.DialConfig(url, amqp091.Config{
		Properties: properties,
		Heartbeat:  heartbeat,
		Dial: func(network, address string) (net.Conn, error) {
			dialer := net.Dialer{Timeout: dialTimeout}
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			// amqp091 clears this deadline once the handshake is done.
			return conn, conn.SetDeadline(time.Now().Add(dialTimeout))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w (is RabbitMQ running there, and is this its AMQP port? "+
			"If so, check the user and password, and the virtual host)", net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), err)
	}
	return conn, nil
}
