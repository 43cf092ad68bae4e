package api

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// A Time is when a message is due.
type Time struct {
	Delay *Delay     `json:"delay,omitempty" example:"30m" doc:"How long the message waits: a number with a unit, such as 250ms, 90s, 30m, 36h or 2d. A fraction of the backend's resolution is rounded up"`
	Due   *time.Time `json:"due,omitempty" format:"date-time" example:"2027-01-31T18:00:00Z" doc:"Instead of delay: when the message is due, as of RFC 3339, by the clock of this server. The past means at once"`
}

// A Delay is one as people write it.
type Delay cli.Delay

// UnmarshalText reads it.
func (d *Delay) UnmarshalText(text []byte) error {
	if err := (*cli.Delay)(d).UnmarshalText(text); err != nil {
		return fmt.Errorf("delay is %.64q: %w", text, err)
	}
	return nil
}

func (t *Time) left(now time.Time) (time.Duration, error) {
	switch {
	case t.Delay != nil && t.Due != nil:
		return 0, errors.New("delay and due are both there: write one")
	case t.Delay != nil:
		return time.Duration(*t.Delay), nil
	case t.Due == nil:
		return 0, nil
	}
	left := t.Due.Sub(now)
	if left == math.MaxInt64 { // what Sub returns for more
		return 0, errors.New("due is more than 292 years away")
	}
	return max(left, 0), nil
}

// A Message is what is published.
type Message struct {
	ID       string `json:"id,omitempty" maxLength:"40" example:"remind/order-17" doc:"With due: a name for the message. Published again with the same name and time, it is delivered once, and /v1/tickets makes its ticket from both. At most 40 bytes"`
	Exchange string `json:"exchange,omitempty" example:"orders" doc:"The exchange to publish to when the message is due. Empty: the default exchange, with the name of a queue as key"`
	Key      string `json:"key,omitempty" example:"order.expired" doc:"The routing key"`
	Time

	Text   *string         `json:"text,omitempty" example:"order 17" doc:"The body, as UTF-8. Of text, json and base64, write at most one"`
	JSON   json.RawMessage `json:"json,omitempty" doc:"The body, as JSON. It arrives byte for byte as it is written here, with content_type application/json unless you set another"`
	Base64 []byte          `json:"base64,omitempty" doc:"The body, in base64"`

	Headers    Headers    `json:"headers,omitempty" doc:"Texts, true and false, null, numbers, lists and objects. A number without fraction or exponent arrives as an AMQP long-long-int, another as a double"`
	Properties Properties `json:"properties,omitempty"`
}

// Properties of a message, beside its headers.
type Properties struct {
	MessageID       string     `json:"message_id,omitempty" maxLength:"255" doc:"Consumers recognise a copy by it. Default: the header Idempotency-Key, or id, or else a random one"`
	ContentType     string     `json:"content_type,omitempty" maxLength:"255"`
	ContentEncoding string     `json:"content_encoding,omitempty" maxLength:"255"`
	CorrelationID   string     `json:"correlation_id,omitempty" maxLength:"255"`
	ReplyTo         string     `json:"reply_to,omitempty" maxLength:"255"`
	Type            string     `json:"type,omitempty" maxLength:"255"`
	AppID           string     `json:"app_id,omitempty" maxLength:"255"`
	DeliveryMode    uint8      `json:"delivery_mode,omitempty" maximum:"2" doc:"1 transient, 2 persistent (the default)"`
	Priority        uint8      `json:"priority,omitempty" maximum:"255" doc:"At most max_priority of /v1/limits"`
	Timestamp       *time.Time `json:"timestamp,omitempty" doc:"In whole seconds"`
}

// errBodies refuses more than one body.
var errBodies = errors.New("text, json and base64: write one of them")

// publishing is the message as it goes to a Delayer. key is the header Idempotency-Key, or "".
func (m *Message) publishing(key string) (amqp091.Publishing, error) {
	p := &m.Properties
	msg := amqp091.Publishing{
		MessageId: p.MessageID, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, CorrelationId: p.CorrelationID,
		ReplyTo: p.ReplyTo, Type: p.Type, AppId: p.AppID, DeliveryMode: p.DeliveryMode, Priority: p.Priority,
		Headers: amqp091.Table(m.Headers),
	}
	if p.Timestamp != nil {
		msg.Timestamp = *p.Timestamp
	}
	switch {
	case p.Timestamp != nil && p.Timestamp.Unix() < 0:
		return msg, errors.New("properties.timestamp is before 1970, which AMQP cannot express")
	case key != "" && p.MessageID != "" && key != p.MessageID:
		return msg, errors.New("the header Idempotency-Key and properties.message_id differ: write one")
	case key != "":
		msg.MessageId = key
	case p.MessageID == "":
		msg.MessageId = cmp.Or(m.ID, rand.Text())
	}
	switch {
	case m.Text != nil && (m.JSON != nil || m.Base64 != nil), m.JSON != nil && m.Base64 != nil:
		return msg, errBodies
	case m.Text != nil:
		msg.Body = []byte(*m.Text)
	case m.JSON != nil:
		msg.Body = m.JSON
		if msg.ContentType == "" {
			msg.ContentType = jsonType
		}
	default:
		msg.Body = m.Base64
	}
	return msg, nil
}

// message is the message with what is left of its delay.
func (m *Message) message(key string, now time.Time) (delayer.Message, error) {
	left, err := m.left(now)
	if err != nil {
		return delayer.Message{}, err
	}
	msg, err := m.publishing(key)
	sent := delayer.Message{Exchange: m.Exchange, Key: m.Key, Delay: left, Publishing: msg}
	switch {
	case m.ID != "" && m.Due == nil:
		return sent, errors.New("id needs due: the same id and due are one message")
	case m.ID != "":
		sent.ID, sent.Due, sent.Delay = m.ID, *m.Due, 0
	}
	return sent, err
}

const mostMessages = 1000

// Headers are those of a message.
type Headers amqp091.Table

// Schema says that a header may be any JSON.
func (Headers) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// mostHeaders is more, in bytes, than a frame of the broker takes. What is read of them needs many
// times the memory.
const mostHeaders = 128 << 10

// UnmarshalJSON reads them.
func (h *Headers) UnmarshalJSON(data []byte) error {
	if len(data) > mostHeaders {
		return fmt.Errorf("headers have %d bytes, at most %d can fit into a frame", len(data), mostHeaders)
	}
	table, err := messagejson.Table(data)
	if err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	*h = Headers(table)
	return nil
}
