package undelivered

import (
	"encoding/json"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// A Kept is a message in one of the queues.
type Kept struct {
	amqp091.Delivery
	Size int // of the body, also after Forget

	// Ours: Envelope is known. A message without our header was published to the queue by someone
	// else, or a controller could not read it.
	Ours     bool
	Envelope message.Envelope

	// Bundle is what is known of a message that is a bundle of messages. Nil if it is none.
	Bundle *Bundle

	// Parked is what package retry knows of the message, in a queue of parked ones. Nil if it was
	// not package retry that parked it.
	Parked *attempt.State

	// Came is when the last waiting queue released it, in whole seconds by the broker's clock, or
	// when a Delayer moved it to the unroutable queue. Zero if unknown.
	Came time.Time

	// Remaining is the part of its delay that the message has not waited for, if that is Known.
	Remaining time.Duration
	Known     bool

	client *Client
	window *window
}

// A Bundle is a message that holds others. It is sent to no destination.
type Bundle struct {
	Messages int
	To       string // the queue of the Delayer to which it can be sent; "": none
	Why      string // it is here
}

func newKept(c *Client, d amqp091.Delivery, w *window) *Kept {
	m := &Kept{Delivery: d, Size: len(d.Body), Came: message.LastDeath(d.Headers), client: c, window: w}
	if at, ok := d.Headers[message.Came].(time.Time); ok {
		m.Came = at
	}
	envelope, err := delayer.ParseHeader(d.Headers)
	m.Ours, m.Envelope = err == nil, envelope
	if !m.Ours && c.Bundle != nil {
		m.Bundle = c.Bundle(d.ContentType, d.Body)
	}
	if c.Parked() {
		if state, ok := attempt.Parked(&m.Delivery, time.Now()); ok {
			m.Parked = &state
		}
	} else if m.Ours && w != nil {
		m.Remaining, m.Known = c.Rules.Remaining(m.Envelope, d.Headers)
	}
	return m
}

// Destination is where the message is to be sent: an exchange, or with "" the queue that key names.
// A parked message goes to the queue in which it failed. known is false if the message does not
// tell, or cannot be believed.
func (m *Kept) Destination() (exchange, key string, known bool) {
	switch to := m.client.To; {
	case m.Bundle != nil:
		return "", m.Bundle.To, m.Bundle.To != ""
	case !m.client.Parked() && !m.Ours && to != nil:
		return *to, m.RoutingKey, true
	case !m.client.Parked():
		return m.Envelope.Exchange, m.RoutingKey, m.Ours
	case m.believed():
		return "", m.Parked.Queue, true
	}
	return "", "", false
}

// believed reports whether a parked message failed in the queue that its header names: the name of
// the queue of parked ones says so, or the operator.
func (m *Kept) believed() bool {
	return m.Parked != nil && (attempt.Belongs(m.client.Queue(), m.Parked.Queue) || m.Parked.Queue == m.client.From)
}

// Published is how the message was published before it failed. known is false if it does not tell.
func (m *Kept) Published() (exchange, key string, known bool) {
	if m.Parked != nil {
		first := m.Parked.Original
		envelope, err := delayer.ParseHeader(amqp091.Table{delayer.Header: first.ID})
		if err == nil && message.Owns(m.client.Owner, first.Exchange) {
			return envelope.Exchange, first.Key, true
		}
		return first.Exchange, first.Key, true
	}
	return m.Envelope.Exchange, m.RoutingKey, m.Ours && !m.client.Parked()
}

// Early reports whether the message became unroutable before it was due: a queue of the Delayer was
// gone, not the destination.
func (m *Kept) Early() bool { return m.Known && m.Remaining > 0 }

// waited reports whether no clock is needed: the message has waited for its whole delay, or its
// due time is not known.
func (m *Kept) waited() bool { return m.Known && m.Remaining == 0 || !m.Ours }

// waits says why a message must not be sent yet, or "": both the due time and what remained of the
// delay when it came to this queue must have passed at now, the broker's time.
func (m *Kept) waits(now time.Time) string {
	if m.waited() {
		return ""
	}
	due := m.Envelope.Due
	if at := m.Came.Add(m.Remaining); m.Known && at.After(due) {
		due = at
	}
	if due.After(now) {
		return fmt.Sprintf("it is not due before %s", due.UTC().Format(time.RFC3339))
	}
	return ""
}

// returned reports whether a quorum queue has had the message back before. Classic queues, which
// put messages where they were, do not count that.
func (m *Kept) returned() bool {
	_, counted := m.Headers["x-delivery-count"]
	_, acquired := m.Headers["x-acquired-count"] // from RabbitMQ 4.0 on
	return m.Redelivered && (counted || acquired)
}

// Forget drops the body to free memory.
func (m *Kept) Forget() { m.Body = nil }

// Remove removes the message from the queue. Call it before the next is read, or after the last
// was. If the connection is lost meanwhile, the message may still be there.
func (m *Kept) Remove() error {
	if err := m.Ack(false); err != nil {
		return m.client.explain("remove from", m.window.of.name, err)
	}
	m.window.held--
	m.window.room++
	return nil
}

// Content is what a message consists of, as JSON. Header values carry their AMQP type, and text
// that is not UTF-8 is in base64; only in the name of a header are such bytes replaced.
type Content struct {
	Properties messagejson.Properties `json:"properties"`
	Headers    messagejson.Headers    `json:"headers"`
	Body       []byte                 `json:"body"` // base64
}

// Content returns the message as it is in the queue.
func (m *Kept) Content() Content {
	plain := message.Again(&m.Delivery, m.UserId)
	body := m.Body
	if body == nil {
		body = []byte{} // null is no base64
	}
	return Content{messagejson.PropertiesOf(&plain), messagejson.Headers(m.Headers), body}
}

// line is a message as export writes it; docs/operating.md describes it.
type line struct {
	Exchange *messagejson.Text    `json:"exchange"` // null: not known
	Key      messagejson.Text     `json:"routing_key"`
	ID       messagejson.Text     `json:"id,omitempty"`
	Due      *messagejson.Instant `json:"due,omitempty"`
	Came     *messagejson.Instant `json:"came,omitempty"`
	Content
}

// Export is the message as one line of JSON, without a line feed.
func (m *Kept) Export() ([]byte, error) {
	l := line{Key: messagejson.Text(m.RoutingKey), Content: m.Content()}
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
