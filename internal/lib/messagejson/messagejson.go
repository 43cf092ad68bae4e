// Package messagejson writes and reads properties and headers of a message as JSON, without loss:
// header values carry the name of their AMQP type. docs/operating.md describes the format, which
// `delayer messages export` prints and the outbox's table holds. [Table] reads JSON without types.
package messagejson

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Text is a JSON string, or {"base64": "…"} where its bytes are not UTF-8.
type Text string

// encoded is a Text that is not UTF-8.
type encoded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON keeps every byte.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encoded{[]byte(t)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		var e encoded
		err := json.Unmarshal(raw, &e)
		*t = Text(e.Base64)
		return err
	}
	return json.Unmarshal(raw, (*string)(t))
}

// Instant is a time in RFC 3339, or beyond its years the seconds since the Unix epoch.
type Instant time.Time

// MarshalJSON writes UTC.
func (i Instant) MarshalJSON() ([]byte, error) {
	t := time.Time(i).UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		return json.Marshal(t.Unix())
	}
	return json.Marshal(t)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (i *Instant) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, (*time.Time)(i))
	}
	var seconds int64
	err := json.Unmarshal(raw, &seconds)
	*i = Instant(time.Unix(seconds, 0).UTC())
	return err
}

// Properties are those that a message has.
type Properties struct {
	ContentType     Text     `json:"content_type,omitempty"`
	ContentEncoding Text     `json:"content_encoding,omitempty"`
	CorrelationID   Text     `json:"correlation_id,omitempty"`
	ReplyTo         Text     `json:"reply_to,omitempty"`
	Expiration      Text     `json:"expiration,omitempty"`
	MessageID       Text     `json:"message_id,omitempty"`
	Type            Text     `json:"type,omitempty"`
	UserID          Text     `json:"user_id,omitempty"`
	AppID           Text     `json:"app_id,omitempty"`
	DeliveryMode    uint8    `json:"delivery_mode,omitempty"`
	Priority        uint8    `json:"priority,omitempty"`
	Timestamp       *Instant `json:"timestamp,omitempty"`
}

// PropertiesOf are a publishing's.
func PropertiesOf(m *amqp091.Publishing) Properties {
	p := Properties{
		ContentType: Text(m.ContentType), ContentEncoding: Text(m.ContentEncoding), CorrelationID: Text(m.CorrelationId),
		ReplyTo: Text(m.ReplyTo), Expiration: Text(m.Expiration), MessageID: Text(m.MessageId), Type: Text(m.Type),
		UserID: Text(m.UserId), AppID: Text(m.AppId), DeliveryMode: m.DeliveryMode, Priority: m.Priority,
	}
	if !m.Timestamp.IsZero() {
		at := Instant(m.Timestamp)
		p.Timestamp = &at
	}
	return p
}

// Publishing is a message with these properties, without headers and body.
func (p *Properties) Publishing() amqp091.Publishing {
	m := amqp091.Publishing{
		ContentType: string(p.ContentType), ContentEncoding: string(p.ContentEncoding), CorrelationId: string(p.CorrelationID),
		ReplyTo: string(p.ReplyTo), Expiration: string(p.Expiration), MessageId: string(p.MessageID), Type: string(p.Type),
		UserId: string(p.UserID), AppId: string(p.AppID), DeliveryMode: p.DeliveryMode, Priority: p.Priority,
	}
	if p.Timestamp != nil {
		m.Timestamp = time.Time(*p.Timestamp)
	}
	return m
}

// Headers are a table whose values carry their type.
type Headers amqp091.Table

// MarshalJSON fails for a value that AMQP has no type for.
func (h Headers) MarshalJSON() ([]byte, error) {
	table, err := tableOf(amqp091.Table(h))
	if err != nil {
		return nil, err
	}
	return json.Marshal(table)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Headers) UnmarshalJSON(raw []byte) error {
	table, err := readTable(raw)
	*h = Headers(table)
	return err
}
