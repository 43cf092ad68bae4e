// Package frame reads and writes the frames of AMQP 0-9-1, and looks into the few methods that
// Delayer must understand, and into tables. All others pass as bytes.
package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Frame is one frame as it is on the wire: type, channel, size, payload and the octet that ends
// it.
type Frame []byte

// The types of frames. Others, such as heartbeats, only pass.
const (
	TypeMethod = 1
	TypeHeader = 2
)

const (
	head = 7    // type, channel, size
	last = 0xCE // the octet that ends a frame
)

// Overhead is how many bytes a frame has beside its payload.
const Overhead = head + 1

// Type is the type of the frame.
func (f Frame) Type() byte { return f[0] }

// Channel is the number of its channel.
func (f Frame) Channel() uint16 { return binary.BigEndian.Uint16(f[1:]) }

// Payload is what it carries.
func (f Frame) Payload() []byte { return f[head : len(f)-1] }

// A Method is a class in the upper 16 bits and a method of it in the lower.
type Method uint32

// The methods that are looked into.
const (
	Start           Method = 10<<16 | 10
	StartOK         Method = 10<<16 | 11
	Tune            Method = 10<<16 | 30
	TuneOK          Method = 10<<16 | 31
	Open            Method = 10<<16 | 40
	OpenOK          Method = 10<<16 | 41
	Close           Method = 10<<16 | 50
	CloseOK         Method = 10<<16 | 51
	ChannelOpen     Method = 20<<16 | 10
	ChannelOpenOK   Method = 20<<16 | 11
	ChannelClose    Method = 20<<16 | 40
	ChannelCloseOK  Method = 20<<16 | 41
	ExchangeDeclare Method = 40<<16 | 10
	ExchangeDelete  Method = 40<<16 | 20
	ExchangeBind    Method = 40<<16 | 30
	Publish         Method = 60<<16 | 40
	Ack             Method = 60<<16 | 80
)

// Method is the method of a frame of that type, or 0.
func (f Frame) Method() Method {
	if p := f.Payload(); f.Type() == TypeMethod && len(p) >= 4 {
		return Method(binary.BigEndian.Uint32(p))
	}
	return 0
}

// Args are the arguments of a method.
func (f Frame) Args() Fields { return NewFields(f.Payload()[4:]) }

// New returns a frame.
func New(kind byte, channel uint16, payload []byte) Frame {
	f := append(make(Frame, 0, len(payload)+Overhead), kind)
	f = binary.BigEndian.AppendUint16(f, channel)
	f = binary.BigEndian.AppendUint32(f, uint32(len(payload))) //nolint:gosec // what was read, and little more
	return append(append(f, payload...), last)
}

// NewMethod returns a frame with a method. An argument is a uint8, uint16, uint32, uint64, a string,
// which becomes a short one cut off at 255 bytes, or the bytes as they are.
func NewMethod(channel uint16, m Method, args ...any) Frame {
	p := binary.BigEndian.AppendUint32(nil, uint32(m))
	for _, arg := range args {
		switch v := arg.(type) {
		case uint8:
			p = append(p, v)
		case uint16:
			p = binary.BigEndian.AppendUint16(p, v)
		case uint32:
			p = binary.BigEndian.AppendUint32(p, v)
		case uint64:
			p = binary.BigEndian.AppendUint64(p, v)
		case string:
			p = append(append(p, byte(min(len(v), 255))), v[:min(len(v), 255)]...)
		case []byte:
			p = append(p, v...)
		default:
			panic(fmt.Sprintf("frame: an argument is a %T", arg))
		}
	}
	return New(TypeMethod, channel, p)
}

// Fields reads the arguments of a method one after the other. What is cut off reads as zero values,
// and Bad is then true.
type Fields struct {
	rest []byte
	Bad  bool
}

// NewFields reads what is encoded as arguments are.
func NewFields(encoded []byte) Fields { return Fields{rest: encoded} }

func (a *Fields) take(n int) []byte {
	if n > len(a.rest) {
		a.rest, a.Bad = nil, true
		return make([]byte, min(n, 8)) // only numbers are read of it
	}
	taken := a.rest[:n]
	a.rest = a.rest[n:]
	return taken
}

// Byte reads one.
func (a *Fields) Byte() byte { return a.take(1)[0] }

// Uint16 reads two bytes.
func (a *Fields) Uint16() uint16 { return binary.BigEndian.Uint16(a.take(2)) }

// Uint32 reads four bytes.
func (a *Fields) Uint32() uint32 { return binary.BigEndian.Uint32(a.take(4)) }

// Uint64 reads eight bytes.
func (a *Fields) Uint64() uint64 { return binary.BigEndian.Uint64(a.take(8)) }

// Short reads a short string.
func (a *Fields) Short() string {
	n := int(a.Byte())
	if n > len(a.rest) {
		a.take(n)
		return ""
	}
	return string(a.take(n))
}

// Long reads a long string, or a table.
func (a *Fields) Long() []byte {
	n := a.Uint32()
	if uint64(n) > uint64(len(a.rest)) {
		a.rest, a.Bad = nil, true
		return nil
	}
	return a.take(int(n))
}

// Rest is what has not been read.
func (a *Fields) Rest() []byte { return a.rest }

// errTable means that RabbitMQ could not read a table either, unless it knows more types.
var errTable = errors.New("a table cannot be read")

// sizes are the lengths in bytes of the values that have a fixed one, by their types.
var sizes = map[byte]int{'V': 0, 't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': 8, 'd': 8, 'T': 8}

// A Field is one of a table or an array: a name, the type of its value, and the value's bytes.
type Field struct {
	Name  string // "" in an array
	Kind  byte   // S: a long string, A: an array, F: a table
	Value []byte
	Raw   []byte // all of it
}

// Table reads the fields of a table, not those of tables within.
func Table(table []byte) ([]Field, error) { return split(table, true) }

// Array reads the values of an array, likewise.
func Array(array []byte) ([]Field, error) { return split(array, false) }

func split(table []byte, named bool) (all []Field, err error) {
	for len(table) > 0 {
		a, f := NewFields(table), Field{}
		if named {
			f.Name = a.Short()
		}
		f.Kind = a.Byte()
		if size, fixed := sizes[f.Kind]; fixed {
			f.Value = a.take(size)
		} else if slices.Contains([]byte("SxAF"), f.Kind) {
			f.Value = a.Long()
		} else {
			return nil, errTable
		}
		if a.Bad {
			return nil, errTable
		}
		f.Raw = table[:len(table)-len(a.rest)]
		all, table = append(all, f), a.rest
	}
	return all, nil
}

// Headers returns the table of headers of a frame with a message's properties, and where in the
// payload it begins, behind its size; at is 0 where there are none.
func Headers(payload []byte) (table []byte, at int, err error) {
	const (
		contentType     = 1 << 15
		contentEncoding = 1 << 14
		headers         = 1 << 13
		before          = 12 // class, weight, and the size of the body
	)
	a := NewFields(payload)
	a.take(before)
	flags := a.Uint16()
	for _, text := range [...]uint16{contentType, contentEncoding} {
		if flags&text != 0 {
			a.Short()
		}
	}
	if flags&headers != 0 {
		at = len(payload) - len(a.rest) + 4
		table = a.Long()
	}
	if a.Bad {
		return nil, 0, errTable
	}
	return table, at, nil
}

// WithHeader returns a frame with a message's properties that has one header more, with a text. The
// message must have headers.
func (f Frame) WithHeader(name, text string) (Frame, error) {
	p := f.Payload()
	table, at, err := Headers(p)
	if err != nil || at == 0 {
		return nil, errTable
	}
	field := append([]byte{byte(len(name))}, name+"S"...)
	field = append(binary.BigEndian.AppendUint32(field, uint32(len(text))), text...) //nolint:gosec // at most 255
	out := slices.Concat(p[:at+len(table)], field, p[at+len(table):])
	binary.BigEndian.PutUint32(out[at-4:], uint32(len(table)+len(field))) //nolint:gosec // less than a frame
	return New(TypeHeader, f.Channel(), out), nil
}

// ErrSize is a frame that is longer than was agreed, and ErrEnd one that does not end as it should.
var (
	ErrSize = errors.New("a frame is longer than was agreed")
	ErrEnd  = errors.New("a frame has no end octet")
)

// A Reader reads frames.
type Reader struct {
	In     *bufio.Reader
	buffer []byte
}

// keptBuffer is how many bytes of a buffer are kept from frame to frame.
const keptBuffer = 32 << 10

// Read returns the next frame, which is valid until the next Read. One of more than most bytes is
// ErrSize. Nothing of what it has read is lost with an error but the frame itself.
func (r *Reader) Read(most int) (Frame, error) {
	start, err := r.In.Peek(head)
	if err != nil {
		if len(start) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(start[3:])) + Overhead
	if size > int64(most) {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", ErrSize, size, most)
	}
	if cap(r.buffer) > keptBuffer && size <= keptBuffer {
		r.buffer = nil
	}
	r.buffer = slices.Grow(r.buffer[:0], int(size))[:size]
	if _, err := io.ReadFull(r.In, r.buffer); err != nil {
		return nil, err
	}
	if r.buffer[size-1] != last {
		return nil, ErrEnd
	}
	return r.buffer, nil
}
