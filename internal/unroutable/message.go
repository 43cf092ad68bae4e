package unroutable

import (
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
)

// A Message is one of the unroutable messages.
type Message struct {
	amqp091.Delivery

	// Ours: Envelope is known. A message without our header was published to the queue by someone
	// else, or a controller could not read it.
	Ours     bool
	Envelope message.Envelope

	// Came is when the last waiting queue released it, in whole seconds by the broker's clock, or
	// when a Delayer moved it to the unroutable queue. Zero if unknown.
	Came time.Time

	// Remaining is the part of its delay that the message has not waited for, if that is Known.
	Remaining time.Duration
	Known     bool

	reader *Reader
	window *window
}

func newMessage(d amqp091.Delivery, r *Reader, w *window) *Message {
	m := &Message{Delivery: d, Came: message.LastDeath(d.Headers), reader: r, window: w}
	if at, ok := d.Headers[message.Came].(time.Time); ok {
		m.Came = at
	}
	envelope, err := delayer.ParseHeader(d.Headers)
	m.Ours, m.Envelope = err == nil, envelope
	if m.Ours && r != nil {
		m.Remaining, m.Known = r.client.Rules.Remaining(m.Envelope, d.Headers)
	}
	return m
}

// Early reports whether the message became unroutable before it was due: a queue of the Delayer was
// gone, not the destination.
func (m *Message) Early() bool { return m.Known && m.Remaining > 0 }

// waited reports whether no clock is needed: the message has waited for its whole delay, or its
// due time is not known.
func (m *Message) waited() bool { return m.Known && m.Remaining == 0 || !m.Ours }

// waits says why a message must not be sent yet, or "". The remaining delay is known without a
// clock. If some remains, the message has waited for it in this queue. That needs a clock, so both
// the due time and the remaining delay since it came must have passed at now, the broker's time.
func (m *Message) waits(now time.Time) string {
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

// Forget drops the body to free memory.
func (m *Message) Forget() { m.Body = nil }

// Remove removes the message from the queue. Call it before the next is read, or after the last
// was. If the connection is lost meanwhile, the message may still be there.
func (m *Message) Remove() error {
	if err := m.Ack(false); err != nil {
		return m.reader.client.explain("remove from", m.window.of.name, err)
	}
	m.window.held--
	m.window.room++
	return nil
}
