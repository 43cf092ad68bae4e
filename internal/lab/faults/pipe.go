package faults

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A pipe is one connection through a proxy.
type pipe struct {
	proxy          *Proxy
	client, broker net.Conn

	lost   atomic.Bool // it has been half-open
	doomed atomic.Bool // to be reset in the middle of a frame
	once   sync.Once
	closed chan struct{} // closed when it is
}

const (
	slowRate  = 1024 // bytes a second
	slowPiece = 64   // bytes
	frameEnd  = 0xCE // the last octet of every AMQP frame
)

// copy reads from one side, and does with it what the mode says, until either closes.
func (c *pipe) copy(from, to net.Conn, toBroker bool) {
	defer c.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if toBroker {
			c.proxy.asked.Add(int64(n))
		}
		if n > 0 && !c.pass(buffer[:n], to, toBroker) {
			return
		}
		switch {
		case err != nil && c.lost.Load():
			<-c.closed // the other side never hears of it
			return
		case err != nil:
			return
		}
	}
}

// note remembers for good that nothing passes here.
func (c *pipe) note(m Mode) {
	if m == HalfOpen {
		c.lost.Store(true)
	}
}

// pass returns false where the connection is over.
func (c *pipe) pass(data []byte, to net.Conn, toBroker bool) bool {
	for len(data) > 0 {
		mode, changed := c.proxy.now()
		switch {
		case c.lost.Load():
			return true
		case mode == Slow:
			n := min(slowPiece, len(data))
			if _, err := to.Write(data[:n]); err != nil {
				return false
			}
			data = data[n:]
			c.rest(n, changed)
		case c.doomed.Load() && toBroker:
			_, _ = to.Write(data[:midFrame(data)])
			c.reset()
			return false
		default:
			_, err := to.Write(data)
			return err == nil
		}
	}
	return true
}

// rest waits as long as n bytes take at the slow rate, unless the mode changes.
func (c *pipe) rest(n int, changed <-chan struct{}) {
	select {
	case <-time.After(time.Duration(n) * time.Second / slowRate):
	case <-changed:
	case <-c.closed:
	}
}

// midFrame is where to cut so that what goes before does not end a frame: its last octet is no
// frame's end.
func midFrame(data []byte) int {
	n := len(data) / 2
	for n > 0 && data[n-1] == frameEnd {
		n--
	}
	return n
}

func (c *pipe) close() {
	c.once.Do(func() {
		_ = c.client.Close()
		_ = c.broker.Close()
		close(c.closed)
	})
}

func (c *pipe) reset() {
	c.once.Do(func() {
		reset(c.client)
		reset(c.broker)
		close(c.closed)
	})
}

// reset closes a connection with RST instead of FIN.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
