package broker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
)

// largestFrame is the largest frame that a connection with AnyHeaders reads.
const largestFrame = 64 << 20

// UnreadableHeader stands for all headers of a message if amqp091-go cannot read them.
const UnreadableHeader = "x-delayer-unreadable"

// What amqp091-go v1.16.0 reads of a table.
const (
	deepestField = 32   // how deeply tables and arrays may be nested
	mostFields   = 8192 // of one table or array
)

// anyHeaders is a connection that can read messages whatever their headers are. The connection must
// not publish.
//
// x-death may make a message's headers larger than a frame, and amqp091-go then closes the
// connection (501). So we raise the limit in connection.tune and restore it in connection.tune-ok.
//
// RabbitMQ takes tables that amqp091-go reads as a syntax error, which ends the connection again and
// again: the message would come first each time. So we put another table in its place.
type anyHeaders struct {
	net.Conn
	in     *bufio.Reader
	buffer []byte // a frame
	rest   []byte // what is not passed on of it
	limit  uint32 // the broker's own, once it has named it
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

func (c *anyHeaders) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		head, err := c.in.Peek(frameHead)
		if err != nil {
			return 0, err
		}
		size := int(binary.BigEndian.Uint32(head[3:])) + frameHead + 1
		if size > largestFrame { // amqp091-go refuses it
			return c.in.Read(p)
		}
		if cap(c.buffer) > keptBody {
			c.buffer = nil
		}
		c.buffer = slices.Grow(c.buffer[:0], size)[:size]
		if _, err := io.ReadFull(c.in, c.buffer); err != nil {
			return 0, err
		}
		switch c.rest = c.buffer; {
		case c.rest[0] == frameHeader:
			c.rest = withReadableHeaders(c.rest)
		case c.limit == 0 && isMethod(c.rest, tune):
			c.limit = binary.BigEndian.Uint32(c.rest[limitAt:])
			binary.BigEndian.PutUint32(c.rest[limitAt:], largestFrame)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements [net.Conn]. amqp091-go writes each frame of the handshake by itself.
func (c *anyHeaders) Write(p []byte) (int, error) {
	if isMethod(p, tuneOK) {
		p = bytes.Clone(p)
		binary.BigEndian.PutUint32(p[limitAt:], c.limit)
	}
	return c.Conn.Write(p)
}

// withReadableHeaders returns a frame with a message's properties whose headers amqp091-go can
// read: the same, or one with [UnreadableHeader] for them.
func withReadableHeaders(frame []byte) []byte {
	const (
		flagsAt        = frameHead + 12 // behind class, weight and the size of the body
		hasContentType = 1 << 15
		hasEncoding    = 1 << 14
		hasHeaders     = 1 << 13
	)
	body, end := frame[:len(frame)-1], frame[len(frame)-1:]
	if len(body) < flagsAt+2 {
		return frame
	}
	flags := binary.BigEndian.Uint16(body[flagsAt:])
	at := flagsAt + 2
	for _, before := range [...]uint16{hasContentType, hasEncoding} {
		if flags&before != 0 && at < len(body) {
			at += 1 + int(body[at])
		}
	}
	if flags&hasHeaders == 0 || at > len(body) {
		return frame
	}
	table, rest, ok := long(body[at:])
	if !ok || readable(table, true, 0) {
		return frame
	}
	const field = string(rune(len(UnreadableHeader))) + UnreadableHeader + "V"
	changed := binary.BigEndian.AppendUint32(bytes.Clone(body[:at]), uint32(len(field)))
	changed = slices.Concat(changed, []byte(field), rest)
	binary.BigEndian.PutUint32(changed[3:], uint32(len(changed)-frameHead))
	return append(changed, end...)
}

// long splits off what has its length in four bytes in front.
func long(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, false
	}
	return b[4 : 4+n], b[4+n:], true
}

// fieldSizes are the lengths in bytes of the types that have a fixed one.
var fieldSizes = map[byte]int{
	'V': 0, 't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': 8, 'd': 8, 'T': 8,
}

// readable reports whether amqp091-go can read the fields of a table, which have names, or of an
// array.
func readable(fields []byte, named bool, depth int) bool {
	for n := 0; len(fields) > 0; n++ {
		name := 0
		if named {
			name = 1 + int(fields[0])
		}
		if n == mostFields || len(fields) <= name {
			return false
		}
		kind := fields[name]
		fields = fields[name+1:]
		size, fixed := fieldSizes[kind]
		switch {
		case fixed && size <= len(fields):
			fields = fields[size:]
		case kind == 'S' || kind == 'x' || kind == 'A' || kind == 'F':
			value, rest, ok := long(fields)
			if !ok {
				return false
			}
			if kind == 'A' || kind == 'F' {
				if depth == deepestField || !readable(value, kind == 'F', depth+1) {
					return false
				}
			}
			fields = rest
		default:
			return false
		}
	}
	return true
}
