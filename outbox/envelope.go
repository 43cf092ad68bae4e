package outbox

import (
	"encoding/json"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// An envelope is the column message of a row: all of a message but its body.
type envelope struct {
	Exchange   messagejson.Text       `json:"exchange"`
	Key        messagejson.Text       `json:"routing_key"`
	Properties messagejson.Properties `json:"properties"`
	Headers    messagejson.Headers    `json:"headers"`
}

func envelopeOf(exchange, key string, msg *amqp091.Publishing) envelope {
	return envelope{
		Exchange: messagejson.Text(exchange), Key: messagejson.Text(key),
		Properties: messagejson.PropertiesOf(msg), Headers: messagejson.Headers(msg.Headers),
	}
}

// A row is a message in the table.
type row struct {
	id       int64
	attempts int
	exchange string
	key      string
	msg      amqp091.Publishing
}

// read fills the row from its columns, which may have been written by hand.
func (r *row) read(text, body []byte) error {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("the column message cannot be read: %w", err)
	}
	r.exchange, r.key = string(e.Exchange), string(e.Key)
	r.msg = e.Properties.Publishing()
	r.msg.Headers, r.msg.Body = amqp091.Table(e.Headers), body
	return nil
}
