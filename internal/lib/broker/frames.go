package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"

	"github.com/delayer-go/delayer/internal/lib/frame"
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
	in    frame.Reader
	rest  []byte // what is not passed on of a frame
	limit uint32 // the broker's own, once it has named it
}

func (c *anyHeaders) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		f, err := c.in.Read(largestFrame)
		if errors.Is(err, frame.ErrSize) { // amqp091-go refuses it
			return c.in.In.Read(p)
		}
		if err != nil {
			return 0, err
		}
		switch {
		case f.Type() == frame.TypeHeader:
			f = withReadableHeaders(f)
		case c.limit == 0 && f.Method() == frame.Tune:
			f, c.limit = tuned(f, largestFrame)
		}
		c.rest = f
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements [net.Conn]. amqp091-go writes each frame of the handshake by itself.
func (c *anyHeaders) Write(p []byte) (int, error) {
	if f := frame.Frame(p); len(p) >= frame.Overhead && f.Method() == frame.TuneOK {
		p, _ = tuned(f, c.limit)
	}
	return c.Conn.Write(p)
}

// tuned returns a tune or tune-ok with another limit of frames, and the limit that it had.
func tuned(f frame.Frame, limit uint32) (frame.Frame, uint32) {
	a := f.Args()
	channels, was, heartbeat := a.Uint16(), a.Uint32(), a.Uint16()
	if a.Bad {
		return f, 0
	}
	return frame.NewMethod(f.Channel(), f.Method(), channels, limit, heartbeat), was
}

// withReadableHeaders returns a frame with a message's properties whose headers amqp091-go can
// read: the same, or one with [UnreadableHeader] for them.
func withReadableHeaders(f frame.Frame) frame.Frame {
	p := f.Payload()
	table, at, err := frame.Headers(p)
	if err != nil || at == 0 || readable(frame.Table, table, 0) {
		return f
	}
	const field = string(rune(len(UnreadableHeader))) + UnreadableHeader + "V"
	changed := binary.BigEndian.AppendUint32(bytes.Clone(p[:at-4]), uint32(len(field)))
	return frame.New(frame.TypeHeader, f.Channel(), slices.Concat(changed, []byte(field), p[at+len(table):]))
}

// readable reports whether amqp091-go can read a table or an array, as read does.
func readable(read func([]byte) ([]frame.Field, error), encoded []byte, depth int) bool {
	fields, err := read(encoded)
	if err != nil || len(fields) > mostFields {
		return false
	}
	for _, f := range fields {
		inner := frame.Table
		switch f.Kind {
		case 'A':
			inner = frame.Array
		case 'F':
		default:
			continue
		}
		if depth == deepestField || !readable(inner, f.Value, depth+1) {
			return false
		}
	}
	return true
}
