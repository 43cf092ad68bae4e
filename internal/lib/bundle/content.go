package bundle

import (
	"encoding/binary"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// A Content is what the payload of a message record holds.
type Content struct {
	Envelope delayer.Envelope   // but for the id, which the record has
	Due      brokertime.Due     // of the record when it was published; 0: it was not known
	Key      string             // the user's routing key
	To       []any              // the delivery keys of its destinations, strings
	Message  amqp091.Publishing // without a user-id, which the record has
}

// properties lists those of a message, in the order in which they are written.
func properties(m *amqp091.Publishing) []*string {
	return []*string{
		&m.ContentType, &m.ContentEncoding, &m.CorrelationId, &m.ReplyTo, &m.Expiration, &m.MessageId, &m.Type, &m.AppId,
	}
}

const maxShort = 255

// Append appends the bytes of a content. It fails for a header that AMQP does not know.
//
//	due, delay     varint, ns
//	due            varint, ms by the broker's clock
//	exchange, key  length and bytes
//	to             count, and each with its length
//	properties     each with its length
//	delivery mode, priority  1 byte each
//	timestamp      varint, s since 1970; 0: none
//	headers        JSON, with its length; none: 0
//	body           length and bytes
func (c *Content) Append(to []byte) ([]byte, error) {
	to = binary.AppendVarint(to, c.Envelope.Due.UnixNano())
	to = binary.AppendVarint(to, int64(c.Envelope.Delay))
	to = binary.AppendVarint(to, int64(c.Due))
	to = appendText(appendText(to, c.Envelope.Exchange), c.Key)
	to = binary.AppendUvarint(to, uint64(len(c.To)))
	for _, key := range c.To {
		to = appendText(to, key.(string))
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
	var headers []byte
	if len(m.Headers) > 0 {
		var err error
		if headers, err = messagejson.Headers(m.Headers).MarshalJSON(); err != nil {
			return nil, err
		}
	}
	return appendText(appendText(to, headers), m.Body), nil
}

// ReadContent reverses Append. The body shares the bytes of the payload.
func ReadContent(from []byte) (c Content, err error) {
	r := reader{left: from}
	c.Envelope.Due = time.Unix(0, r.varint())
	c.Envelope.Delay = time.Duration(r.varint())
	c.Due = brokertime.Due(r.varint())
	c.Envelope.Exchange, c.Key = r.text(maxShort), r.text(maxShort)
	for range min(r.uvarint(), uint64(len(r.left))) {
		key := r.text(maxShort)
		if key == "" {
			return c, ErrDamaged
		}
		c.To = append(c.To, key)
	}
	m := &c.Message
	for _, value := range properties(m) {
		*value = r.text(maxShort)
	}
	m.DeliveryMode, m.Priority = r.byte(), r.byte()
	if seconds := r.varint(); seconds != 0 {
		m.Timestamp = time.Unix(seconds, 0)
	}
	if headers := r.bytes(r.uvarint()); len(headers) > 0 {
		if err := (*messagejson.Headers)(&m.Headers).UnmarshalJSON(headers); err != nil {
			return c, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	m.Body = r.bytes(r.uvarint())
	if r.left == nil || len(r.left) > 0 || len(c.To) == 0 {
		return c, ErrDamaged
	}
	return c, nil
}
