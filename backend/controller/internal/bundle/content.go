package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	maxDepth = 64 // of headers
)

// Append appends the bytes of a content. It fails for a header that AMQP does not know.
//
//	due, delay     varint, ns
//	due            varint, ms by the broker's clock
//	exchange, key  length and bytes
//	to             count, and each with its length
//	properties     each with its length
//	delivery mode, priority  1 byte each
//	timestamp      varint, s since 1970; 0: none
//	headers        count, and each: name, type, value
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
	for _, value := range properties(m) {
		to = appendText(to, *value)
	}
	to = append(to, m.DeliveryMode, m.Priority)
	seconds := int64(0)
	if !m.Timestamp.IsZero() {
		seconds = m.Timestamp.Unix()
	}
	to = binary.AppendVarint(to, seconds)
	to, err := appendTable(to, m.Headers, 0)
	return appendText(to, m.Body), err
}

// ReadContent reverses Append. The body shares the bytes of the payload.
func ReadContent(from []byte) (c Content, err error) {
	r := reader{left: from}
	c.Envelope.Due = time.Unix(0, r.varint())
	c.Envelope.Delay = time.Duration(r.varint())
	c.Due = brokertime.Due(r.varint())
	c.Envelope.Exchange, c.Key = r.text(maxShort), r.text(maxShort)
	for range r.count() {
		c.To = append(c.To, r.text(maxShort))
	}
	m := &c.Message
	for _, value := range properties(m) {
		*value = r.text(maxShort)
	}
	m.DeliveryMode, m.Priority = r.byte(), r.byte()
	if seconds := r.varint(); seconds != 0 {
		m.Timestamp = time.Unix(seconds, 0)
	}
	if headers := r.table(0); len(headers) > 0 {
		m.Headers = headers
	}
	m.Body = r.bytes(r.uvarint())
	if r.left == nil || len(r.left) > 0 || len(c.To) == 0 {
		return c, ErrContent
	}
	return c, nil
}

// fixed are the types of headers whose size is fixed, by the letters that AMQP has for them.
var fixed = map[byte]reflect.Type{
	't': reflect.TypeFor[bool](),
	'b': reflect.TypeFor[int8](),
	'B': reflect.TypeFor[uint8](),
	's': reflect.TypeFor[int16](),
	'u': reflect.TypeFor[uint16](),
	'I': reflect.TypeFor[int32](),
	'i': reflect.TypeFor[uint32](),
	'l': reflect.TypeFor[int64](),
	'f': reflect.TypeFor[float32](),
	'd': reflect.TypeFor[float64](),
	'D': reflect.TypeFor[amqp091.Decimal](),
}

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
	case int:
		if v == int(int32(v)) { // as amqp091-go writes it
			return appendValue(to, int32(v), depth)
		}
		return appendValue(to, int64(v), depth)
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
	for letter, of := range fixed {
		if of == reflect.TypeOf(value) {
			return binary.Append(append(to, letter), binary.BigEndian, value)
		}
	}
	return nil, fmt.Errorf("AMQP has no %T", value)
}

// count reads how many values follow, of a byte at least.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.left)) {
		r.left = nil
		return 0
	}
	return n
}

func (r *reader) table(depth int) amqp091.Table {
	t := amqp091.Table{}
	for range r.count() {
		name := r.text(maxShort)
		t[name] = r.value(depth + 1)
	}
	return t
}

func (r *reader) value(depth int) any {
	if depth > maxDepth {
		r.left = nil
	}
	switch letter := r.byte(); letter {
	case 'V':
		return nil
	case 'S':
		return string(r.bytes(r.uvarint()))
	case 'x':
		return r.bytes(r.uvarint())
	case 'T':
		return time.Unix(r.varint(), 0)
	case 'F':
		return r.table(depth)
	case 'A':
		list := []any{}
		for range r.count() {
			list = append(list, r.value(depth+1))
		}
		return list
	default:
		of := fixed[letter]
		if of == nil {
			r.left = nil
			return nil
		}
		v := reflect.New(of)
		if _, err := binary.Decode(r.left, binary.BigEndian, v.Interface()); err != nil {
			r.left = nil
		}
		r.bytes(uint64(binary.Size(v.Interface())))
		return v.Elem().Interface()
	}
}
