// Package stamp has the header that a message carries while it waits in rounds: its destinations,
// and what remains of its delay; and what both wheels take for a message that is due. It is pure.
package stamp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
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

var (
	clock      = rand.Text()
	clockStart = time.Now()
)

// Reading is a time on this process's monotonic clock, which means nothing to another process.
func Reading(t time.Time) time.Duration { return t.Sub(clockStart) }

// A Stamp is what a message carries in the header [message.Stamp] while it waits.
type Stamp struct {
	Clock  string        // the process that wrote it
	OwnDue time.Duration // the due time, by that process's clock
	Hop    time.Duration // the TTL of the queue that the message was sent to; 0: straight to the intake
	Left   time.Duration // what remains of the delay after that

	// Priority is the message's, which waits without one: from RabbitMQ 4.0 on quorum queues would
	// change the order of what waits.
	Priority uint8

	To  []any // the delivery keys of its destinations, strings
	BCC []any // the user's own BCC, which the broker takes away, strings
}

// Remaining is how much of the delay is left now. The process that wrote the stamp knows exactly.
// To others, a message that has expired in its queue has waited as long as the queue's TTL. It has
// waited longer if no controller was there to take it: that makes it late, never early. A message
// that did not expire has not waited: someone has moved it, or the queue overflowed.
func (s Stamp) Remaining(now time.Time, expired bool) time.Duration {
	switch {
	case s.Clock == clock:
		return s.OwnDue - Reading(now)
	case expired:
		return s.Left
	}
	return s.Hop + s.Left
}

// Next is the stamp for the next hop, by this process's clock. It lacks the priority.
func (s Stamp) Next(now time.Time, remaining, hop time.Duration) Stamp {
	return Stamp{Clock: clock, OwnDue: Reading(now) + remaining, Hop: hop, Left: remaining - hop, To: s.To, BCC: s.BCC}
}

// A stamp is written as a text, since a table of as many fields costs the broker and its clients
// several times more to read: the clock, the due time, the hop and what is left after it in ns, and
// the priority. The destinations and the BCC follow, each with its letter and length:
//
//	5BQ2… 71034 0 5000000000 9 d26:~d:=…b5:copy1
const aDestination, aBCC = 'd', 'b'

// Header is the stamp as a message carries it.
func (s Stamp) Header() amqp091.Table {
	const usual = 192 // bytes
	text := append(make([]byte, 0, usual), s.Clock...)
	for _, number := range [...]int64{int64(s.OwnDue), int64(s.Hop), int64(s.Left), int64(s.Priority)} {
		text = strconv.AppendInt(append(text, ' '), number, 10)
	}
	text = append(text, ' ')
	for _, key := range s.To {
		text = appendKey(append(text, aDestination), key.(string))
	}
	for _, key := range s.BCC {
		text = appendKey(append(text, aBCC), key.(string))
	}
	return amqp091.Table{message.Stamp: string(text)}
}

func appendKey(text []byte, key string) []byte {
	text = append(strconv.AppendInt(text, int64(len(key)), 10), ':')
	return append(text, key...)
}

// Read reverses Header. The error says why the message is foreign: no controller writes that.
func Read(headers amqp091.Table) (s Stamp, err error) {
	value, there := headers[message.Stamp]
	text, ok := value.(string)
	switch {
	case !there:
		return s, fmt.Errorf("no header %s", message.Stamp)
	case !ok:
		return s, fmt.Errorf("header %s is a %T", message.Stamp, value)
	}
	if s, err = parse(text); err != nil {
		return Stamp{}, fmt.Errorf("header %s %w", message.Stamp, err)
	}
	return s, nil
}

func parse(text string) (s Stamp, err error) {
	var rest string
	s.Clock, rest, _ = strings.Cut(text, " ")
	var numbers [4]int64
	for i := range numbers {
		var number string
		number, rest, _ = strings.Cut(rest, " ")
		if numbers[i], err = strconv.ParseInt(number, 10, 64); err != nil {
			return s, errors.New("lacks its times")
		}
	}
	s.OwnDue, s.Hop, s.Left = time.Duration(numbers[0]), time.Duration(numbers[1]), time.Duration(numbers[2])
	s.Priority = uint8(numbers[3])
	if s.Clock == "" || s.OwnDue < 0 || s.Hop < 0 || s.Hop > Longest || s.Left.Abs() > Longest || numbers[3] != int64(s.Priority) {
		return s, errors.New("has impossible times")
	}
	for rest != "" {
		letter := rest[0]
		digits, keys, _ := strings.Cut(rest[1:], ":")
		size, err := strconv.ParseUint(digits, 10, 8)
		if err != nil || int(size) > len(keys) {
			return s, errors.New("has keys that cannot be read")
		}
		key := keys[:size]
		rest = keys[size:]
		switch {
		case letter == aBCC:
			s.BCC = append(s.BCC, key)
		case letter == aDestination && strings.HasPrefix(key, message.Reserved):
			s.To = append(s.To, key)
		default:
			return s, fmt.Errorf("has the key %.64q, which is no destination", key)
		}
	}
	if len(s.To) == 0 {
		return s, errors.New("has no destination")
	}
	return s, nil
}

// Expired says that a message has left its queue because its TTL had passed. Earlier entries of
// x-death were stripped, so there is one.
func Expired(headers amqp091.Table) bool {
	deaths := message.Deaths(headers)
	return len(deaths) == 1 && deaths[0].Reason == "expired"
}

// A Message has come to a controller.
type Message struct {
	Delivery *amqp091.Delivery // as the user published it
	Envelope message.Envelope
	Stamp    Stamp
}

// ReadMessage reads our headers and takes them away: a controller holds many messages, and most
// have no others. The error says why the message is foreign; then it is left as it is.
func ReadMessage(d *amqp091.Delivery) (m Message, err error) {
	m.Delivery = d
	if m.Stamp, err = Read(d.Headers); err != nil {
		return m, err
	}
	if m.Envelope, err = delayer.ParseHeader(d.Headers); err != nil {
		return m, err
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
	return m, nil
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
