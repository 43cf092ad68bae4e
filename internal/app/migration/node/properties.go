package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// DecodeProperties reads the properties of a message as AMQP 0-9-1 encodes them in a content
// header: sixteen flags, then the properties that are there, in the order of the flags. The header
// values have the types that amqp091-go gives them.
func DecodeProperties(encoded []byte) (msg amqp091.Publishing, err error) {
	d := decoder{rest: encoded}
	flags := number[uint16](&d)
	for i, read := range []func(){
		func() { msg.ContentType = d.short() },
		func() { msg.ContentEncoding = d.short() },
		func() { msg.Headers = d.table(0) },
		func() { msg.DeliveryMode = number[uint8](&d) },
		func() { msg.Priority = number[uint8](&d) },
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

const mostDepth = 64

// A decoder reads from the front of rest. After an error it returns zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) take(n uint32) []byte {
	if d.err == nil && uint64(n) > uint64(len(d.rest)) {
		d.err = errors.New("they end too early")
	}
	if d.err != nil {
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

func number[T any](d *decoder) (v T) {
	if taken := d.take(uint32(binary.Size(v))); taken != nil { //nolint:gosec // at most 8
		_, d.err = binary.Decode(taken, binary.BigEndian, &v)
	}
	return v
}

func (d *decoder) short() string        { return string(d.take(uint32(number[uint8](d)))) }
func (d *decoder) long() []byte         { return d.take(number[uint32](d)) }
func (d *decoder) timestamp() time.Time { return time.Unix(number[int64](d), 0) }

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
	switch kind := number[uint8](d); kind {
	case 't':
		return number[uint8](d) != 0
	case 'b':
		return number[int8](d)
	case 'B':
		return number[uint8](d)
	case 's':
		return number[int16](d)
	case 'u':
		return number[uint16](d)
	case 'I':
		return number[int32](d)
	case 'i':
		return number[uint32](d)
	case 'l':
		return number[int64](d)
	case 'f':
		return number[float32](d)
	case 'd':
		return number[float64](d)
	case 'D':
		return amqp091.Decimal{Scale: number[uint8](d), Value: number[int32](d)}
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
