package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A Content is what the payload of a message record holds.
type Content struct {
	Envelope delayer.Envelope   // but for the id, which the record has
	Due      brokertime.Due     // of the record when it was published; 0: it was not known
	Key      string             // the user's routing key
	To       []string           // the delivery keys of its destinations
	Message  amqp091.Publishing // without a user-id, which the record has
}

// ErrContent says that a payload holds no message.
var ErrContent = errors.New("its payload is no message")

// properties lists those of a message, in the order in which they are written.
func properties(m *amqp091.Publishing) []*string {
	return []*string{
		&m.ContentType, &m.ContentEncoding, &m.CorrelationId, &m.ReplyTo, &m.Expiration, &m.MessageId, &m.Type, &m.AppId,
	}
}

const (
	maxShort = 255
	maxList  = 1 << 16 // of keys
	maxDepth = 64      // of headers
)

// Append appends the bytes of a content. It fails for a header that AMQP does not know.
//
//	due, delay     varint, ns
//	due            varint, ms by the broker's clock
//	exchange, key  length and bytes
//	to             count, and each with its length
//	properties     a bit for each that is not empty, 2 bytes; each of those with its length
//	delivery mode, priority  1 byte each
//	timestamp      varint, s since 1970; 0: none
//	headers        see appendTable
//	body           length and bytes
func (c *Content) Append(to []byte) ([]byte, error) {
	to = binary.AppendVarint(to, c.Envelope.Due.UnixNano())
	to = binary.AppendVarint(to, int64(c.Envelope.Delay))
	to = binary.AppendVarint(to, int64(c.Due))
	to = appendText(appendText(to, c.Envelope.Exchange), c.Key)
	to = binary.AppendUvarint(to, uint64(len(c.To)))
	for _, key := range c.To {
		to = appendText(to, key)
	}
	m := &c.Message
	at, bits := len(to), uint16(0)
	to = append(to, 0, 0)
	for i, value := range properties(m) {
		if *value != "" {
			bits |= 1 << i
			to = appendText(to, *value)
		}
	}
	binary.BigEndian.PutUint16(to[at:], bits)
	to = append(to, m.DeliveryMode, m.Priority)
	seconds := int64(0)
	if !m.Timestamp.IsZero() {
		seconds = m.Timestamp.Unix()
	}
	to = binary.AppendVarint(to, seconds)
	to, err := appendTable(to, m.Headers, 0)
	if err != nil {
		return nil, err
	}
	return appendText(to, m.Body), nil
}

// ReadContent reverses Append. The body shares the bytes of the payload.
func ReadContent(from []byte) (c Content, err error) {
	r := reader{left: from}
	c.Envelope.Due = time.Unix(0, r.varint())
	c.Envelope.Delay = time.Duration(r.varint())
	c.Due = brokertime.Due(r.varint())
	c.Envelope.Exchange, c.Key = r.text(maxShort), r.text(maxShort)
	for range min(r.uvarint(), maxList) {
		if r.left == nil {
			return c, ErrContent
		}
		c.To = append(c.To, r.text(maxShort))
	}
	m := &c.Message
	bits := r.bytes(2)
	if len(bits) < 2 {
		return c, ErrContent
	}
	for i, value := range properties(m) {
		if binary.BigEndian.Uint16(bits)&(1<<i) != 0 {
			*value = r.text(maxShort)
		}
	}
	m.DeliveryMode, m.Priority = r.byte(), r.byte()
	if seconds := r.varint(); seconds != 0 {
		m.Timestamp = time.Unix(seconds, 0)
	}
	if m.Headers, err = r.table(0); err != nil {
		return c, err
	}
	m.Body = r.bytes(r.uvarint())
	if r.left == nil || len(r.left) > 0 || len(c.To) == 0 {
		return c, ErrContent
	}
	return c, nil
}

// appendTable appends a table: the number of its fields, and each with its name, a letter for its
// type as in AMQP, and its value.
func appendTable(to []byte, t amqp091.Table, depth int) (_ []byte, err error) {
	to = binary.AppendUvarint(to, uint64(len(t)))
	for _, name := range slices.Sorted(maps.Keys(t)) { // so that a bundle can be compared with another
		if to, err = appendValue(appendText(to, name), t[name], depth+1); err != nil {
			return nil, fmt.Errorf("header %.64q: %w", name, err)
		}
	}
	return to, nil
}

func appendValue(to []byte, value any, depth int) (_ []byte, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case nil:
		return append(to, 'V'), nil
	case bool:
		if v {
			return append(to, 't', 1), nil
		}
		return append(to, 't', 0), nil
	case byte:
		return append(to, 'B', v), nil
	case int8:
		return append(to, 'b', byte(v)), nil
	case int16:
		return binary.AppendVarint(append(to, 's'), int64(v)), nil
	case uint16:
		return binary.AppendVarint(append(to, 'u'), int64(v)), nil
	case int32:
		return binary.AppendVarint(append(to, 'I'), int64(v)), nil
	case uint32:
		return binary.AppendVarint(append(to, 'i'), int64(v)), nil
	case int:
		if v == int(int32(v)) { // as amqp091-go writes it
			return binary.AppendVarint(append(to, 'I'), int64(v)), nil
		}
		return binary.AppendVarint(append(to, 'l'), int64(v)), nil
	case int64:
		return binary.AppendVarint(append(to, 'l'), v), nil
	case float32:
		return binary.BigEndian.AppendUint32(append(to, 'f'), math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(to, 'd'), math.Float64bits(v)), nil
	case amqp091.Decimal:
		return binary.AppendVarint(append(to, 'D', v.Scale), int64(v.Value)), nil
	case string:
		return appendText(append(to, 'S'), v), nil
	case []byte:
		return appendText(append(to, 'x'), v), nil
	case time.Time:
		return binary.AppendVarint(append(to, 'T'), v.Unix()), nil
	case amqp091.Table:
		return appendTable(append(to, 'F'), v, depth)
	case []any:
		to = binary.AppendUvarint(append(to, 'A'), uint64(len(v)))
		for _, item := range v {
			if to, err = appendValue(to, item, depth+1); err != nil {
				return nil, err
			}
		}
		return to, nil
	}
	return nil, fmt.Errorf("AMQP has no %T", value)
}

// table reads a table; nil if it is empty.
func (r *reader) table(depth int) (amqp091.Table, error) {
	count := r.uvarint()
	if depth > maxDepth || count > uint64(len(r.left)) {
		return nil, ErrContent
	}
	var t amqp091.Table
	if count > 0 {
		t = make(amqp091.Table, min(count, 16))
	}
	for range count {
		name := r.text(maxShort)
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		t[name] = value
	}
	return t, nil
}

// within reads a number that must lie between two others.
func (r *reader) within(least, most int64) int64 {
	v := r.varint()
	if v < least || v > most {
		r.left = nil
	}
	return v
}

func (r *reader) value(depth int) (value any, err error) {
	switch r.byte() {
	case 'V':
	case 't':
		value = r.byte() != 0
	case 'B':
		value = r.byte()
	case 'b':
		value = int8(r.byte())
	case 's':
		value = int16(r.within(math.MinInt16, math.MaxInt16))
	case 'u':
		value = uint16(r.within(0, math.MaxUint16))
	case 'I':
		value = int32(r.within(math.MinInt32, math.MaxInt32))
	case 'i':
		value = uint32(r.within(0, math.MaxUint32))
	case 'l':
		value = r.varint()
	case 'f':
		if b := r.bytes(4); len(b) == 4 {
			value = math.Float32frombits(binary.BigEndian.Uint32(b))
		}
	case 'd':
		if b := r.bytes(8); len(b) == 8 {
			value = math.Float64frombits(binary.BigEndian.Uint64(b))
		}
	case 'D':
		value = amqp091.Decimal{Scale: r.byte(), Value: int32(r.within(math.MinInt32, math.MaxInt32))}
	case 'S':
		value = string(r.bytes(r.uvarint()))
	case 'x':
		value = r.bytes(r.uvarint())
	case 'T':
		value = time.Unix(r.varint(), 0)
	case 'F':
		t, err := r.table(depth)
		if t == nil {
			t = amqp091.Table{}
		}
		return t, err
	case 'A':
		count := r.uvarint()
		if depth > maxDepth || count > uint64(len(r.left)) {
			return nil, ErrContent
		}
		list := make([]any, 0, min(count, 16))
		for range count {
			item, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	default:
		return nil, ErrContent
	}
	if r.left == nil {
		return nil, ErrContent
	}
	return value, nil
}
