package broker

import (
	"net"
	"os"
	"sync"
	"time"
)

// A Gate stops a connection from being read, for as long as it is shut: what has come is more than
// memory can take. A connection that is not read for its read deadline, 30 s after the last frame,
// is lost: the broker gives up writing to it as well by then.
type Gate struct {
	mu     sync.Mutex
	open   bool
	opened chan struct{} // closed once it is open
}

// NewGate returns a Gate that is open.
func NewGate() *Gate {
	g := &Gate{open: true, opened: make(chan struct{})}
	close(g.opened)
	return g
}

// Set opens or shuts the gate.
func (g *Gate) Set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.open == open:
	case open:
		close(g.opened)
	default:
		g.opened = make(chan struct{})
	}
	g.open = open
}

// gated is a socket behind a Gate.
type gated struct {
	net.Conn
	gate *Gate

	once   sync.Once
	closed chan struct{}

	mu       sync.Mutex
	deadline time.Time
	moved    chan struct{} // closed and replaced when the deadline changes
}

func newGated(conn net.Conn, gate *Gate) *gated {
	return &gated{Conn: conn, gate: gate, closed: make(chan struct{}), moved: make(chan struct{})}
}

func (c *gated) Read(p []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// wait waits until the gate is open, no longer than a Read may take.
func (c *gated) wait() error {
	for {
		c.gate.mu.Lock()
		opened := c.gate.opened
		c.gate.mu.Unlock()
		select {
		case <-opened:
			return nil
		default:
		}
		c.mu.Lock()
		deadline, moved := c.deadline, c.moved
		c.mu.Unlock()
		var late <-chan time.Time
		if !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-opened:
			return nil
		case <-moved:
		case <-late:
			return os.ErrDeadlineExceeded
		case <-c.closed:
			return net.ErrClosed
		}
	}
}

func (c *gated) SetDeadline(t time.Time) error {
	c.note(t)
	return c.Conn.SetDeadline(t)
}

func (c *gated) SetReadDeadline(t time.Time) error {
	c.note(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *gated) note(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *gated) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
