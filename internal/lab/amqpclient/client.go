package amqpclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	// retryPause is the time between two attempts.
	retryPause = 50 * time.Millisecond
	// closeTimeout bounds Close: the broker may be gone.
	closeTimeout = 5 * time.Second
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
	ch, err := c.channel(conn)
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	err = f(ch)
	if err != nil || !c.keep(ch) {
		_ = ch.Close() // an error of f has closed it already
	}
	if err != nil && conn.IsClosed() {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// channel returns the idle channel, or a new one: to open one costs the broker more than most of
// what is done on it.
func (c *Client) channel(conn *amqp091.Connection) (*amqp091.Channel, error) {
	c.mu.Lock()
	ch := c.idle
	c.idle = nil
	c.mu.Unlock()
	if ch != nil && !ch.IsClosed() {
		return ch, nil
	}
	return conn.Channel()
}

// keep keeps a channel for the next Do. It returns false if there is one already.
func (c *Client) keep(ch *amqp091.Channel) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil && !c.idle.IsClosed() {
		return false
	}
	c.idle = ch
	return true
}

// retries asks Options.Retry. With several brokers it disconnects, so that another one is tried.
func (c *Client) retries(err error) bool {
	if c.options.Retry == nil || !c.options.Retry(err) {
		return false
	}
	if len(c.options.URLs) > 1 {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = c.disconnect()
	}
	return true
}

func (c *Client) disconnect() error {
	return closing(c.conn.CloseDeadline(time.Now().Add(closeTimeout)))
}

// closing returns an error of closing a connection, unless the broker has closed it meanwhile.
// RabbitMQ 4.3 does (541) where a consumer begins again while its queue is being deleted.
func closing(err error) error {
	var answer *amqp091.Error
	if errors.Is(err, amqp091.ErrClosed) || errors.As(err, &answer) && answer.Server {
		return nil
	}
	return err
}

// Close ends the consumers and closes the connection. It may be called more than once.
func (c *Client) Close() error {
	c.end()
	c.mu.Lock()
	err := c.disconnect()
	c.mu.Unlock()
	c.consumers.Wait()
	return err
}
