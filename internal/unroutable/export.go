package unroutable

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// line is an exported message; docs/unroutable.md describes the format.
type line struct {
	Exchange   *text            `json:"exchange"` // null: not known
	Key        text             `json:"routing_key"`
	ID         text             `json:"id,omitempty"`
	Due        any              `json:"due,omitempty"`
	Came       any              `json:"came,omitempty"`
	Properties map[string]any   `json:"properties"`
	Headers    map[string]field `json:"headers"`
	Body       []byte           `json:"body"` // base64
}

// Export returns the message as one line of JSON, without a line feed. Header values carry their
// AMQP type. Text that is not UTF-8 is in base64, but in the name of a header such bytes are
// replaced.
func (m *Message) Export() ([]byte, error) {
	l := line{Key: text(m.RoutingKey), Properties: properties(&m.Delivery), Headers: map[string]field{}, Body: m.Body}
	if l.Body == nil {
		l.Body = []byte{}
	}
	if m.Ours {
		exchange := text(m.Envelope.Exchange)
		l.Exchange, l.ID, l.Due = &exchange, text(m.Envelope.ID), instant(m.Envelope.Due)
	}
	if !m.Came.IsZero() {
		l.Came = instant(m.Came)
	}
	for name, value := range m.Headers {
		f, err := fieldOf(value)
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
		l.Headers[name] = f
	}
	return json.Marshal(l)
}

// properties are those that the message has.
func properties(d *amqp091.Delivery) map[string]any {
	p := map[string]any{}
	for name, value := range map[string]string{
		"content_type": d.ContentType, "content_encoding": d.ContentEncoding, "correlation_id": d.CorrelationId,
		"reply_to": d.ReplyTo, "expiration": d.Expiration, "message_id": d.MessageId, "type": d.Type,
		"user_id": d.UserId, "app_id": d.AppId,
	} {
		if value != "" {
			p[name] = text(value)
		}
	}
	if d.DeliveryMode != 0 {
		p["delivery_mode"] = d.DeliveryMode
	}
	if d.Priority != 0 {
		p["priority"] = d.Priority
	}
	if !d.Timestamp.IsZero() {
		p["timestamp"] = instant(d.Timestamp)
	}
	return p
}

// text is a JSON string, or {"base64": "…"} where its bytes are not UTF-8.
type text string

// MarshalJSON keeps every byte.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// field is a header's value with the name of its AMQP type.
type field struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

func fieldOf(value any) (field, error) {
	switch v := value.(type) {
	case nil:
		return field{"void", nil}, nil
	case bool:
		return field{"bool", v}, nil
	case string:
		return field{"string", text(v)}, nil
	case []byte:
		return field{"bytes", base64.StdEncoding.EncodeToString(v)}, nil
	case time.Time:
		return field{"time", instant(v)}, nil
	case amqp091.Decimal:
		return field{"decimal", map[string]int64{"scale": int64(v.Scale), "value": int64(v.Value)}}, nil
	case float32:
		return field{"float32", float(float64(v), 32)}, nil
	case float64:
		return field{"float64", float(v, 64)}, nil
	case int8, int16, int32, int64, byte, uint16, uint32:
		return field{integerTypes[fmt.Sprintf("%T", v)], v}, nil
	case []any:
		return arrayOf(v)
	case amqp091.Table:
		return tableOf(v)
	}
	return field{}, fmt.Errorf("a %T", value)
}

// integerTypes are the names, by Go's.
var integerTypes = map[string]string{
	"int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32",
}

// instant is a time in RFC 3339, or the seconds since the Unix epoch for years beyond it.
func instant(t time.Time) any {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return t.Unix()
	}
	return t
}

// float is a number, or a string where JSON has none: "NaN", "+Inf", "-Inf".
func float(v float64, bits int) any {
	text := strconv.FormatFloat(v, 'g', -1, bits)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return text
	}
	return json.Number(text)
}

func arrayOf(items []any) (field, error) {
	list := make([]field, 0, len(items))
	for _, item := range items {
		f, err := fieldOf(item)
		if err != nil {
			return field{}, err
		}
		list = append(list, f)
	}
	return field{"array", list}, nil
}

func tableOf(t amqp091.Table) (field, error) {
	table := map[string]field{}
	for name, value := range t {
		f, err := fieldOf(value)
		if err != nil {
			return field{}, err
		}
		table[name] = f
	}
	return field{"table", table}, nil
}
