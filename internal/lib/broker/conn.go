package broker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	firstPause   = 100 * time.Millisecond // before the first attempt to reconnect
	longestPause = 10 * time.Second       // between two attempts
	closeTimeout = 2 * time.Second        // for the broker to answer connection.close
)

// Conn is one connection that reconnects by itself. The pause between attempts doubles up to ten
// seconds. It is randomised, so that a thousand clients do not return at the same instant.
type Conn struct {
	opts     Options
	all      []address
	log      *slog.Logger
	warnings pace.Warnings

	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	opened chan *amqp091.Channel // by Dial, and not used yet

	mu      sync.Mutex
	state   connState
	changed chan struct{} // closed and replaced when the state changes
}

type connState struct {
	at      int                 // index into all: the current address, or the last one
	conn    *amqp091.Connection // nil while there is none
	wire    *wire               // its socket
	lastErr error               // why there is none
	blocked bool                // a memory or disk alarm of the broker blocks publishing
}

func (s connState) status() delayer.ConnectionState {
	switch {
	case s.conn == nil:
		return delayer.ConnectionDown
	case s.blocked:
		return delayer.ConnectionBlocked
	}
	return delayer.ConnectionUp
}

// Dial connects, and from then on reconnects until Close. It returns an error if the first attempt
// fails, so that a wrong address or password is found at once. Of several addresses it takes the
// first that answers.
func Dial(ctx context.Context, opts Options) (*Conn, error) {
	all, err := parseURLs(opts.URL)
	if err != nil {
		return nil, err
	}
	c := &Conn{opts: opts, all: all, done: make(chan struct{}), changed: make(chan struct{}), opened: make(chan *amqp091.Channel, opts.Open)}
	c.log = opts.Slog().With("connection", opts.Name)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	up, err := c.dial(ctx, 0)
	if err != nil {
		c.cancel()
		return nil, dialError("open", opts.Backend, endpoints(all), err)
	}
	c.state = up
	unhook := context.AfterFunc(ctx, func() { _ = up.wire.Close() })
	defer unhook()
	for range opts.Open {
		ch, err := up.conn.Channel()
		if err != nil {
			c.cancel()
			_ = up.conn.CloseDeadline(time.Now().Add(closeTimeout))
			return nil, c.fail("open", cmp.Or(context.Cause(ctx), err))
		}
		c.opened <- ch
	}
	c.tell(delayer.ConnectionClosed, delayer.ConnectionUp, nil)
	go c.keep(up)
	return c, nil
}

// keep watches the connection and replaces it until Close.
func (c *Conn) keep(up connState) {
	defer close(c.done)
	defer func() {
		last, _ := c.now()
		c.tell(last.status(), delayer.ConnectionClosed, nil)
	}()
	for {
		lost := c.watch(up)
		if lost == nil {
			_ = up.conn.CloseDeadline(time.Now().Add(closeTimeout))
		}
		// amqp091-go closes the socket only once its channels are closed. That waits for who
		// writes, and a write into a full socket for minutes.
		_ = up.wire.Close()
		if lost == nil {
			return
		}
		c.set(connState{at: up.at, lastErr: lost})
		c.log.Warn("connection lost", "broker", c.Endpoint(), "error", plain(lost))
		if up = c.redial(up.at); up.conn == nil {
			return
		}
		c.log.Info("connected again", "broker", c.Endpoint())
		c.set(up)
	}
}

// watch returns why the connection was lost, or nil when Close was called.
func (c *Conn) watch(up connState) error {
	closed := up.conn.NotifyClose(make(chan *amqp091.Error, 1))
	blocked := up.conn.NotifyBlocked(make(chan amqp091.Blocking, 16))
	for {
		select {
		case <-c.ctx.Done():
			return nil
		case err := <-closed:
			if err != nil {
				return err
			}
			return amqp091.ErrClosed
		case b, ok := <-blocked:
			if !ok {
				blocked = nil // the connection is closing
				continue
			}
			up.blocked = b.Active
			c.set(up)
			if b.Active {
				c.log.Warn("the broker blocks publishing", "broker", c.Endpoint(), "reason", b.Reason)
			} else {
				c.log.Info("the broker takes messages again", "broker", c.Endpoint())
			}
		}
	}
}

// redial tries until it has a connection, or returns none when Close was called. It begins with the
// address after the one that was lost.
func (c *Conn) redial(lost int) connState {
	pause := pace.Backoff{First: firstPause, Longest: longestPause}
	for pace.Sleep(c.ctx, pause.Failed()) == nil {
		up, err := c.dial(c.ctx, lost+1)
		if err == nil {
			return up
		}
		if c.ctx.Err() != nil {
			break
		}
		c.set(connState{at: lost, lastErr: err})
		c.warnings.Warn(c.log, "still no connection", "broker", endpoints(c.all), "error", plain(err))
	}
	return connState{}
}

// set is called by the goroutine of keep only, so that an Observer sees each state.
func (c *Conn) set(s connState) {
	c.mu.Lock()
	was := c.state.status()
	c.state = s
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	if was != s.status() {
		c.tell(was, s.status(), s.lastErr)
	}
}

func (c *Conn) tell(was, is delayer.ConnectionState, why error) {
	if c.opts.Observer.Connection == nil {
		return
	}
	event := delayer.ConnectionEvent{Backend: c.opts.Backend, Name: c.opts.Name, Was: was, Now: is}
	if why != nil {
		event.Err = plain(why)
	}
	c.opts.Observer.Connection(event)
}

// now returns the state, and a channel that closes when it changes.
func (c *Conn) now() (connState, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, c.changed
}

// Channel opens a channel on the connection, waiting for a lost one to come back until ctx ends. It
// does not wait where the broker refuses one channel more.
func (c *Conn) Channel(ctx context.Context) (*amqp091.Channel, error) {
	ch, _, err := c.channel(ctx)
	return ch, err
}

// channel also returns the state in which the connection was.
func (c *Conn) channel(ctx context.Context) (*amqp091.Channel, connState, error) {
	for {
		state, changed := c.now()
		if state.conn != nil {
			ch, err := c.open(state.conn)
			if err == nil {
				return ch, state, nil
			}
			if !state.conn.IsClosed() || isLimited(err) {
				return nil, state, c.fail("open channel", err)
			}
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			return nil, state, &delayer.Error{Op: "connect", Backend: c.opts.Backend, Kind: delayer.ErrClosed}
		case <-ctx.Done():
			return nil, state, c.gaveUp(ctx)
		}
	}
}

// open takes a channel that Dial has opened, or opens one.
func (c *Conn) open(conn *amqp091.Connection) (*amqp091.Channel, error) {
	select {
	case ch := <-c.opened:
		if !ch.IsClosed() { // otherwise its connection was lost
			return ch, nil
		}
	default:
	}
	return conn.Channel()
}

// gaveUp returns why ctx ended, and what blocked the operation until then, if that is known.
func (c *Conn) gaveUp(ctx context.Context) error {
	ended := context.Cause(ctx)
	switch state, _ := c.now(); {
	case state.blocked:
		return fmt.Errorf("%w while the broker blocks publishing: memory or disk alarm", ended)
	case state.conn == nil && state.lastErr != nil:
		return fmt.Errorf("%w while there is no connection: %w", ended, plain(state.lastErr))
	}
	return ended
}

func (c *Conn) fail(op string, err error) error {
	return dialError(op, c.opts.Backend, endpoints(c.all), err)
}

// User is the user name of the connection, the same at every address; "" if it is not known: a
// certificate says who we are, and the address does not repeat it.
func (c *Conn) User() string { return c.all[0].uri.Username }

// Endpoint is the address, without credentials, where we are connected or were last.
func (c *Conn) Endpoint() string {
	state, _ := c.now()
	return c.all[state.at].String()
}

// Server returns the negotiated frame size in bytes and the broker's product and version. While
// there is no connection it returns zeros.
func (c *Conn) Server() (frameSize int, product, version string) {
	state, _ := c.now()
	conn := state.conn
	if conn == nil {
		return 0, "", ""
	}
	product, _ = conn.Properties["product"].(string)
	version, _ = conn.Properties["version"].(string)
	return conn.Config.FrameSize, product, version
}

// From reports whether the broker is of a series from this one on, such as 3.13.
func (c *Conn) From(major, minor int) bool {
	_, _, version := c.Server()
	var first, second int
	_, err := fmt.Sscanf(version, "%d.%d", &first, &second)
	return err == nil && (first > major || first == major && second >= minor)
}

// Log is the logger of the connection.
func (c *Conn) Log() *slog.Logger { return c.log }

// Drop gives up the connection, on which the broker does not answer. Another follows.
func (c *Conn) Drop() {
	if state, _ := c.now(); state.conn != nil {
		_ = state.wire.Close()
	}
}

// Close closes the connection, waiting up to two seconds for the broker's answer, and ends the
// goroutine.
func (c *Conn) Close() {
	c.cancel()
	<-c.done
}
