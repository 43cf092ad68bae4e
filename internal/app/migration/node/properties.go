package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/frame"
)

// DecodeProperties reads the properties of a message as AMQP 0-9-1 encodes them in a content
// header: sixteen flags, then the properties that are there, in the order of the flags. The header
// values have the types that amqp091-go gives them.
func DecodeProperties(encoded []byte) (msg amqp091.Publishing, err error) {
	a := frame.NewFields(encoded)
	flags := a.Uint16()
	for i, read := range []func(){
		func() { msg.ContentType = a.Short() },
		func() { msg.ContentEncoding = a.Short() },
		func() { msg.Headers, err = table(a.Long(), 0) },
		func() { msg.DeliveryMode = a.Byte() },
		func() { msg.Priority = a.Byte() },
		func() { msg.CorrelationId = a.Short() },
		func() { msg.ReplyTo = a.Short() },
		func() { msg.Expiration = a.Short() },
		func() { msg.MessageId = a.Short() },
		func() { msg.Timestamp = time.Unix(int64(a.Uint64()), 0) }, //nolint:gosec // it was one
		func() { msg.Type = a.Short() },
		func() { msg.UserId = a.Short() },
		func() { msg.AppId = a.Short() },
		func() { a.Short() }, // cluster-id, which nobody uses
	} {
		if flags&(1<<(15-i)) != 0 {
			read()
		}
	}
	const unused = 0b11
	switch {
	case err != nil:
	case a.Bad:
		err = errors.New("they end too early")
	case flags&unused != 0:
		err = fmt.Errorf("unknown property flags %#x", flags&unused)
	case len(a.Rest()) > 0:
		err = fmt.Errorf("%d bytes are left behind the properties", len(a.Rest()))
	}
	if err != nil {
		return amqp091.Publishing{}, fmt.Errorf("its properties cannot be read: %w", err)
	}
	return msg, nil
}

const mostDepth = 64

func table(encoded []byte, depth int) (amqp091.Table, error) {
	fields, err := frame.Table(encoded)
	all := amqp091.Table{}
	for _, f := range fields {
		if all[f.Name], err = value(f, depth); err != nil {
			return nil, err
		}
	}
	return all, err
}

func array(encoded []byte, depth int) ([]any, error) {
	fields, err := frame.Array(encoded)
	all := []any{}
	for _, f := range fields {
		v, err := value(f, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, err
}

// value is that of a field. Package frame has seen to its length.
func value(f frame.Field, depth int) (any, error) {
	v, order := f.Value, binary.BigEndian
	switch f.Kind {
	case 't':
		return v[0] != 0, nil
	case 'b':
		return int8(v[0]), nil //nolint:gosec // it was one, as those below
	case 'B':
		return v[0], nil
	case 's':
		return int16(order.Uint16(v)), nil //nolint:gosec // see above
	case 'u':
		return order.Uint16(v), nil
	case 'I':
		return int32(order.Uint32(v)), nil //nolint:gosec // see above
	case 'i':
		return order.Uint32(v), nil
	case 'l':
		return int64(order.Uint64(v)), nil //nolint:gosec // see above
	case 'f':
		return math.Float32frombits(order.Uint32(v)), nil
	case 'd':
		return math.Float64frombits(order.Uint64(v)), nil
	case 'D':
		return amqp091.Decimal{Scale: v[0], Value: int32(order.Uint32(v[1:]))}, nil //nolint:gosec // see above
	case 'S':
		return string(v), nil
	case 'x':
		return append([]byte{}, v...), nil
	case 'T':
		return time.Unix(int64(order.Uint64(v)), 0), nil //nolint:gosec // see above
	case 'V':
		return nil, nil //nolint:nilnil // that is its value
	}
	if depth == mostDepth {
		return nil, errors.New("tables are nested too deeply")
	}
	if f.Kind == 'A' {
		return array(v, depth+1)
	}
	return table(v, depth+1)
}
