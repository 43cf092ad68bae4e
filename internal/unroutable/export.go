package unroutable

import (
	"encoding/json"

	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/messagejson"
)

// line is a message as export writes it; docs/unroutable.md describes it.
type line struct {
	Exchange   *messagejson.Text      `json:"exchange"` // null: not known
	Key        messagejson.Text       `json:"routing_key"`
	ID         messagejson.Text       `json:"id,omitempty"`
	Due        *messagejson.Instant   `json:"due,omitempty"`
	Came       *messagejson.Instant   `json:"came,omitempty"`
	Properties messagejson.Properties `json:"properties"`
	Headers    messagejson.Headers    `json:"headers"`
	Body       []byte                 `json:"body"` // base64
}

// Export is the message as one line of JSON, without a line feed. Header values carry their AMQP type, and text that
// is not UTF-8 is in base64; only in the name of a header are such bytes replaced.
func (m *Message) Export() ([]byte, error) {
	plain := message.Again(&m.Delivery, m.UserId)
	l := line{
		Key: messagejson.Text(m.RoutingKey), Properties: messagejson.PropertiesOf(&plain),
		Headers: messagejson.Headers(m.Headers), Body: m.Body,
	}
	if l.Body == nil {
		l.Body = []byte{}
	}
	if m.Ours {
		exchange, due := messagejson.Text(m.Envelope.Exchange), messagejson.Instant(m.Envelope.Due)
		l.Exchange, l.ID, l.Due = &exchange, messagejson.Text(m.Envelope.ID), &due
	}
	if !m.Came.IsZero() {
		came := messagejson.Instant(m.Came)
		l.Came = &came
	}
	return json.Marshal(l)
}
