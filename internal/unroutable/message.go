package unroutable

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
)

// A Message is one that no destination took.
type Message struct {
	amqp091.Delivery

	// Ours says that Envelope is known. A message that has no header of ours was published to the queue by someone else,
	// or is one that a controller could not read.
	Ours     bool
	Envelope message.Envelope

	// Came is when the last waiting queue let go of it, in whole seconds by the broker's clock; zero where the
	// message does not tell, as with the backends that do not dead-letter.
	Came time.Time

	reader *Reader
	window *window
}

func newMessage(d amqp091.Delivery, r *Reader, w *window) *Message {
	m := &Message{Delivery: d, Came: lastDeath(d.Headers), reader: r, window: w}
	if text, ok := d.Headers[delayer.Header].(string); ok {
		envelope, err := message.ParseEnvelope(text)
		m.Ours, m.Envelope = err == nil, envelope
	}
	return m
}

// lastDeath is the time of the newest entry of x-death, which is the first.
func lastDeath(headers amqp091.Table) time.Time {
	deaths, _ := headers["x-death"].([]any)
	var last time.Time
	for _, entry := range deaths {
		death, _ := entry.(amqp091.Table)
		if at, ok := death["time"].(time.Time); ok && at.After(last) {
			last = at
		}
	}
	return last
}

// Early says that the message came before it was due: not its destination was gone, but a place on its way there.
func (m *Message) Early() bool {
	const clocks = 2 * time.Second // whole seconds, and two clocks
	return m.Ours && !m.Came.IsZero() && m.Envelope.Due.Sub(m.Came) > clocks
}

// Forget lets go of the body, which is all that takes room.
func (m *Message) Forget() { m.Body = nil }

// Remove takes the message out of the queue: either before the next is read, or after the last was. If the connection is
// lost at that moment, the message may still be there.
func (m *Message) Remove() error {
	if err := m.Ack(false); err != nil {
		return m.reader.box.explain("remove from", err)
	}
	m.window.held--
	m.window.room++
	return nil
}
