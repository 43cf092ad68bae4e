package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// DecodeProperties reads the properties of a message as AMQP 0-9-1 encodes them in a content
// header: sixteen flags, then the properties that are there, in the order of the flags. The header
// values have the types that amqp091-go gives them.
func DecodeProperties(encoded []byte) (msg amqp091.Publishing, err error) {
	d := decoder{rest: encoded}
	flags := d.uint16()
	for i, read := range []func(){
		func() { msg.ContentType = d.short() },
		func() { msg.ContentEncoding = d.short() },
		func() { msg.Headers = d.table(0) },
		func() { msg.DeliveryMode = d.uint8() },
		func() { msg.Priority = d.uint8() },
		func() { msg.CorrelationId = d.short() },
		func() { msg.ReplyTo = d.short() },
		func() { msg.Expiration = d.short() },
		func() { msg.MessageId = d.short() },
		func() { msg.Timestamp = d.timestamp() },
		func() { msg.Type = d.short() },
		func() { msg.UserId = d.short() },
		func() { msg.AppId = d.short() },
		func() { d.short() }, // cluster-id, which nobody uses
	} {
		if flags&(1<<(15-i)) != 0 {
			read()
		}
	}
	const unused = 0b11
	switch {
	case d.err != nil:
	case flags&unused != 0:
		d.err = fmt.Errorf("unknown property flags %#x", flags&unused)
	case len(d.rest) > 0:
		d.err = fmt.Errorf("%d bytes are left behind the properties", len(d.rest))
	}
	if d.err != nil {
		return amqp091.Publishing{}, fmt.Errorf("its properties cannot be read: %w", d.err)
	}
	return msg, nil
}

// mostDepth bounds how deep tables and arrays may be nested.
const mostDepth = 64

// A decoder reads from the front of rest. After an error it returns zeros.
type decoder struct {
	rest []byte
	err  error
}

// take returns the next n bytes, or nil if there are fewer.
func (d *decoder) take(n uint64) []byte {
	if d.err == nil && n > uint64(len(d.rest)) {
		d.err = errors.New("they end too early")
	}
	if d.err != nil {
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

// fixed returns the next n bytes, or as many zeros.
func (d *decoder) fixed(n uint64) []byte {
	if taken := d.take(n); taken != nil {
		return taken
	}
	return make([]byte, n)
}

func (d *decoder) uint8() uint8   { return d.fixed(1)[0] }
func (d *decoder) uint16() uint16 { return binary.BigEndian.Uint16(d.fixed(2)) }
func (d *decoder) uint32() uint32 { return binary.BigEndian.Uint32(d.fixed(4)) }
func (d *decoder) uint64() uint64 { return binary.BigEndian.Uint64(d.fixed(8)) }

func (d *decoder) short() string        { return string(d.take(uint64(d.uint8()))) }
func (d *decoder) long() []byte         { return d.take(uint64(d.uint32())) }
func (d *decoder) timestamp() time.Time { return time.Unix(int64(d.uint64()), 0) } //nolint:gosec // a signed number, as amqp091-go reads it

// inner is a decoder of what the next length says.
func (d *decoder) inner(depth int) *decoder {
	in := &decoder{rest: d.long()}
	if depth > mostDepth && d.err == nil {
		d.err = errors.New("tables are nested too deeply")
	}
	in.err = d.err
	return in
}

func (d *decoder) table(depth int) amqp091.Table {
	in, table := d.inner(depth), amqp091.Table{}
	for len(in.rest) > 0 && in.err == nil {
		name := in.short()
		table[name] = in.value(depth)
	}
	d.err = in.err
	return table
}

func (d *decoder) value(depth int) any {
	switch kind := d.uint8(); kind {
	case 't':
		return d.uint8() != 0
	case 'b':
		return int8(d.uint8()) //nolint:gosec // the same bits
	case 'B':
		return d.uint8()
	case 's':
		return int16(d.uint16()) //nolint:gosec // the same bits
	case 'u':
		return d.uint16()
	case 'I':
		return int32(d.uint32()) //nolint:gosec // the same bits
	case 'i':
		return d.uint32()
	case 'l':
		return int64(d.uint64()) //nolint:gosec // the same bits
	case 'f':
		return math.Float32frombits(d.uint32())
	case 'd':
		return math.Float64frombits(d.uint64())
	case 'D':
		return amqp091.Decimal{Scale: d.uint8(), Value: int32(d.uint32())} //nolint:gosec // the same bits
	case 'S':
		return string(d.long())
	case 'x':
		return append([]byte{}, d.long()...)
	case 'A':
		in, list := d.inner(depth+1), []any{}
		for len(in.rest) > 0 && in.err == nil {
			list = append(list, in.value(depth+1))
		}
		d.err = in.err
		return list
	case 'T':
		return d.timestamp()
	case 'F':
		return d.table(depth + 1)
	case 'V':
		return nil
	default:
		if d.err == nil {
			d.err = fmt.Errorf("unknown type %q of a header", kind)
		}
		return nil
	}
}
