package broker

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
)

// largeFrame is the largest frame that a connection with LargeFrames reads.
const largeFrame = 64 << 20

// largeFrames is a connection that can read frames above the negotiated limit. RabbitMQ exceeds
// that limit itself: x-death may make a message's headers larger than a frame, and amqp091-go then
// closes the connection (501). So we raise the limit in connection.tune and restore it in
// connection.tune-ok. The connection must not publish, and it cannot use TLS.
type largeFrames struct {
	net.Conn
	read    bytes.Buffer // a frame that was read, but not passed on
	limit   uint32       // the broker's own
	tuned   bool
	replied bool
}

const (
	frameHead = 7  // type, channel, size
	limitAt   = 13 // of the limit in a tune or tune-ok frame: behind class, method and channel-max
	tune      = 10<<16 | 30
	tuneOK    = 10<<16 | 31
)

// isMethod reports whether frame has that class and method, and includes the limit.
func isMethod(frame []byte, method uint32) bool {
	return len(frame) >= limitAt+4 && frame[0] == 1 && binary.BigEndian.Uint32(frame[frameHead:]) == method
}

// Read implements [net.Conn].
func (c *largeFrames) Read(p []byte) (int, error) {
	if c.read.Len() == 0 && !c.tuned {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	if c.read.Len() > 0 {
		return c.read.Read(p)
	}
	return c.Conn.Read(p)
}

// fill reads a frame of the handshake.
func (c *largeFrames) fill() error {
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return err
	}
	const most = 1 << 20
	rest := make([]byte, min(binary.BigEndian.Uint32(head[3:]), most)+1)
	if _, err := io.ReadFull(c.Conn, rest); err != nil {
		return err
	}
	frame := bytes.Join([][]byte{head, rest}, nil)
	if c.tuned = isMethod(frame, tune); c.tuned {
		c.limit = binary.BigEndian.Uint32(frame[limitAt:])
		binary.BigEndian.PutUint32(frame[limitAt:], largeFrame)
	}
	c.read.Write(frame)
	return nil
}

// Write implements [net.Conn]. amqp091-go writes each frame of the handshake by itself.
func (c *largeFrames) Write(p []byte) (int, error) {
	if !c.replied && isMethod(p, tuneOK) {
		c.replied = true
		p = bytes.Clone(p)
		binary.BigEndian.PutUint32(p[limitAt:], c.limit)
	}
	return c.Conn.Write(p)
}
