// Package stamp has the header that a message carries while it waits for a controller: its
// destinations, and what remains of its delay. It is pure.
package stamp

import (
	"crypto/rand"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// Longest is the longest delay. No sum of delays and times overflows an int64 of nanoseconds.
const Longest = 200 * 365 * 24 * time.Hour

// Whole rounds a delay up to whole milliseconds, the resolution of a controller.
func Whole(delay time.Duration) time.Duration {
	if rest := delay % time.Millisecond; rest != 0 && delay <= math.MaxInt64-time.Millisecond {
		return delay - rest + time.Millisecond
	}
	return delay
}

// Each process has a monotonic clock of its own: nanoseconds since it started. A due time by it
// means nothing to another process.
var (
	clock      = rand.Text()
	clockStart = time.Now()
)

// Reading is a time on this process's monotonic clock.
func Reading(t time.Time) time.Duration { return t.Sub(clockStart) }

// A Stamp is what a message carries in the header [message.Stamp] while it waits.
type Stamp struct {
	Clock  string        // the process that wrote it
	OwnDue time.Duration // the due time, by that process's clock
	Hop    time.Duration // the TTL of the queue that the message was sent to; 0: straight to the intake
	Left   time.Duration // what remains of the delay after that

	brokertime.Due                  // zero: it was not known
	Ticket         bool             // the message may be changed
	Then           []brokertime.Due // after this one, to which it was postponed

	// Priority is the message's, which waits without one: from RabbitMQ 4.0 on quorum queues would
	// change the order of what waits.
	Priority uint8

	Key *string // the user's routing key; nil: the message has kept it
	To  []any   // the delivery keys of its destinations, strings
	BCC []any   // the user's own BCC, which the broker takes away, strings
}

// Foreign is the Clock of a stamp whose OwnDue no process may use.
const Foreign = "broker"

// Own returns what a stamp of this process says as Clock and OwnDue.
func Own(due time.Duration) (string, time.Duration) { return clock, due }

// Own reports whether this process wrote the stamp, so that OwnDue is by its clock.
func (s Stamp) Own() bool { return s.Clock == clock }

// Remaining is how much of the delay is left now.
//
// The process that wrote the stamp knows exactly. No other may use its due time, because clocks
// differ. To others, a message that has expired in its queue has waited as long as the queue's TTL.
// It has waited longer if no controller was there to take it: that makes it late, never early. A
// message that did not expire has not waited: someone has moved it, or the queue overflowed.
func (s Stamp) Remaining(now time.Time, expired bool) time.Duration {
	switch {
	case s.Own():
		return s.OwnDue - Reading(now)
	case expired:
		return s.Left
	}
	return s.Hop + s.Left
}

// Next is the stamp for the next hop, by this process's clock. It lacks the priority, and what only
// slots use.
func (s Stamp) Next(now time.Time, remaining, hop time.Duration) Stamp {
	return Stamp{
		Clock: clock, OwnDue: Reading(now) + remaining, Hop: hop, Left: remaining - hop, To: s.To, BCC: s.BCC,
	}
}

// Expired says that a message has left its queue because its TTL had passed. Earlier entries of
// x-death were stripped, so there is one.
func Expired(headers amqp091.Table) bool {
	deaths := message.Deaths(headers)
	return len(deaths) == 1 && deaths[0].Reason == "expired"
}

// A Message has come to a controller.
type Message struct {
	Delivery *amqp091.Delivery // as it came, and after Unwrap as the user published it
	Envelope message.Envelope
	Stamp    Stamp
}

// ReadMessage reads the headers of a delivery. The error says why the message is foreign. Delivery
// is set then too.
func ReadMessage(d *amqp091.Delivery) (m Message, err error) {
	m.Delivery = d
	if m.Stamp, err = Read(d.Headers); err == nil {
		m.Envelope, err = delayer.ParseHeader(d.Headers)
	}
	return m, err
}

// Unwrap changes the delivery to what the user published: it is under the user's routing key, and
// without our headers. A controller holds many messages, and most have no other headers.
func (m Message) Unwrap() {
	d := m.Delivery
	if m.Stamp.Key != nil {
		d.RoutingKey = *m.Stamp.Key
	}
	if m.Stamp.Priority > 0 {
		d.Priority = m.Stamp.Priority
	}
	delete(d.Headers, message.Stamp)
	delete(d.Headers, delayer.Header)
	if len(d.Headers) == 0 {
		d.Headers = nil
	}
	d.Exchange, d.ConsumerTag = "", ""
}

// Wait returns the message as it is published to wait again, with the next stamp. user is that of
// the connection that publishes it.
func (m Message) Wait(user string, next Stamp) amqp091.Publishing {
	next.Priority = m.Delivery.Priority
	msg := message.SealAgain(m.Delivery, user, m.Envelope, next.Header())
	msg.Priority = 0
	return msg
}

// Deliver returns the message as it is published to its destinations, with keys beside the user's.
func (m Message) Deliver(user string, keys ...any) amqp091.Publishing {
	var bcc amqp091.Table
	if len(m.Stamp.BCC) > 0 {
		bcc = amqp091.Table{"BCC": m.Stamp.BCC}
	}
	return message.SealAgain(m.Delivery, user, m.Envelope, bcc, keys...)
}
