package broker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
)

// largestFrame is the largest frame that a connection with AnyHeaders reads.
const largestFrame = 64 << 20

// UnreadableHeader stands for all headers of a message if amqp091-go cannot read them. Its value is
// their table as the broker sent it, in bytes.
const UnreadableHeader = "x-delayer-unreadable"

// anyHeaders is a connection that can read messages whatever their headers are. The connection must
// not publish.
//
// RabbitMQ exceeds the negotiated size of frames itself: x-death may make a message's headers
// larger than a frame, and amqp091-go then closes the connection (501). So we raise the limit in
// connection.tune and restore it in connection.tune-ok.
//
// RabbitMQ takes tables that amqp091-go reads as a syntax error, which also ends the connection.
// The broker would deliver the message again, and nothing behind it would ever come. So we put
// another table in the place of such a one.
type anyHeaders struct {
	net.Conn
	in      *bufio.Reader
	read    bytes.Buffer // what was read, but not passed on
	passing int          // how many bytes of in are passed on as they are
	limit   uint32       // the broker's own
	tuned   bool
	replied bool
}

func newAnyHeaders(c net.Conn) *anyHeaders {
	const enough = 64 << 10
	return &anyHeaders{Conn: c, in: bufio.NewReaderSize(c, enough)}
}

const (
	frameHead   = 7 // type, channel, size
	frameMethod = 1 // types
	frameHeader = 2
	limitAt     = 13 // of the limit in a tune or tune-ok frame: behind class, method and channel-max
	tune        = 10<<16 | 30
	tuneOK      = 10<<16 | 31
)

// isMethod reports whether frame has that class and method, and includes the limit.
func isMethod(frame []byte, method uint32) bool {
	return len(frame) >= limitAt+4 && frame[0] == frameMethod && binary.BigEndian.Uint32(frame[frameHead:]) == method
}

// Read implements [net.Conn].
func (c *anyHeaders) Read(p []byte) (int, error) {
	if c.read.Len() == 0 && c.passing == 0 {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	if c.read.Len() > 0 {
		return c.read.Read(p)
	}
	n, err := c.in.Read(p[:min(len(p), c.passing)])
	c.passing -= n
	return n, err
}

// fill reads the head of a frame, and all of it where it may have to change.
func (c *anyHeaders) fill() error {
	head, err := c.in.Peek(frameHead)
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[3:])) + frameHead + 1
	if size > largestFrame || c.tuned && head[0] != frameHeader {
		c.passing = size
		return nil
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(c.in, frame); err != nil {
		return err
	}
	switch {
	case frame[0] == frameHeader:
		frame = readable(frame)
	case isMethod(frame, tune):
		c.tuned = true
		c.limit = binary.BigEndian.Uint32(frame[limitAt:])
		binary.BigEndian.PutUint32(frame[limitAt:], largestFrame)
	}
	c.read.Write(frame)
	return nil
}

// Write implements [net.Conn]. amqp091-go writes each frame of the handshake by itself.
func (c *anyHeaders) Write(p []byte) (int, error) {
	if !c.replied && isMethod(p, tuneOK) {
		c.replied = true
		p = bytes.Clone(p)
		binary.BigEndian.PutUint32(p[limitAt:], c.limit)
	}
	return c.Conn.Write(p)
}
