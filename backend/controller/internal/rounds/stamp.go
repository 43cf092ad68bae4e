package rounds

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A stamp is what a message carries in the header [message.Stamp] while it waits, beside its
// destinations and the user's BCC.
type stamp struct {
	clock  string        // the process that wrote it
	ownDue time.Duration // the due time, by that process's clock
	hop    time.Duration // the TTL of the queue that the message was sent to; 0: straight to the intake
	left   time.Duration // what remains of the delay after that

	// priority is the message's, which waits without one: from RabbitMQ 4.0 on quorum queues would
	// change the order of what waits.
	priority uint8
}

var clock = rand.Text() // this process's

// remaining is how much of the delay is left now. The process that wrote the stamp knows exactly.
// To others, a message that has expired in its queue has waited as long as the queue's TTL. It has
// waited longer if no controller was there to take it: that makes it late, never early. A message
// that did not expire has not waited: someone has moved it, or the queue overflowed.
func (s stamp) remaining(now time.Time, expired bool) time.Duration {
	switch {
	case s.clock == clock:
		return s.ownDue - settle.Reading(now)
	case expired:
		return s.left
	}
	return s.hop + s.left
}

// nextStamp is the stamp for the next hop, by this process's clock.
func nextStamp(now time.Time, remaining, hop time.Duration) stamp {
	return stamp{clock: clock, ownDue: settle.Reading(now) + remaining, hop: hop, left: remaining - hop}
}

// A stamp is written as a text, since a table of as many fields costs the broker and its clients
// several times more to read: the clock, the due time, the hop and what is left after it in ns, and
// the priority. The destinations and the BCC follow, each with its letter and length:
//
//	5BQ2… 71034 0 5000000000 9 d26:~d:=…b5:copy1
const aDestination, aBCC = 'd', 'b'

// header is the stamp as a message carries it. to are the delivery keys of its destinations, and
// bcc the user's own, which the broker takes away: strings.
func (s stamp) header(to, bcc []any) amqp091.Table {
	text := fmt.Appendf(nil, "%s %d %d %d %d ", s.clock, s.ownDue, s.hop, s.left, s.priority)
	for _, key := range to {
		text = fmt.Appendf(text, "%c%d:%s", aDestination, len(key.(string)), key)
	}
	for _, key := range bcc {
		text = fmt.Appendf(text, "%c%d:%s", aBCC, len(key.(string)), key)
	}
	return amqp091.Table{message.Stamp: string(text)}
}

// readStamp reverses header. The error says why the message is foreign: no controller writes that.
func readStamp(headers amqp091.Table) (m waiting, err error) {
	text, _ := headers[message.Stamp].(string)
	if m, err = parse(text); err != nil {
		return waiting{}, fmt.Errorf("header %s %w", message.Stamp, err)
	}
	return m, nil
}

func parse(text string) (m waiting, err error) {
	s := &m.stamp
	var rest string
	s.clock, rest, _ = strings.Cut(text, " ")
	var numbers [4]int64
	for i := range numbers {
		var number string
		number, rest, _ = strings.Cut(rest, " ")
		if numbers[i], err = strconv.ParseInt(number, 10, 64); err != nil {
			return m, errors.New("lacks its times")
		}
	}
	s.ownDue, s.hop, s.left = time.Duration(numbers[0]), time.Duration(numbers[1]), time.Duration(numbers[2])
	s.priority = uint8(numbers[3])
	if s.clock == "" || s.ownDue < 0 || s.hop < 0 || s.hop > settle.Longest ||
		s.left.Abs() > settle.Longest || numbers[3] != int64(s.priority) {
		return m, errors.New("has impossible times")
	}
	for rest != "" {
		letter := rest[0]
		digits, keys, _ := strings.Cut(rest[1:], ":")
		size, err := strconv.ParseUint(digits, 10, 8)
		if err != nil || int(size) > len(keys) {
			return m, errors.New("has keys that cannot be read")
		}
		key := keys[:size]
		rest = keys[size:]
		switch {
		case letter == aBCC:
			m.BCC = append(m.BCC, key)
		case letter == aDestination && strings.HasPrefix(key, message.Reserved):
			m.To = append(m.To, key)
		default:
			return m, fmt.Errorf("has the key %.64q, which is no destination", key)
		}
	}
	if len(m.To) == 0 {
		return m, errors.New("has no destination")
	}
	return m, nil
}

// expired says that a message has left its queue because its TTL had passed. Earlier entries of
// x-death were stripped, so there is one.
func expired(headers amqp091.Table) bool {
	deaths := message.Deaths(headers)
	return len(deaths) == 1 && deaths[0].Reason == "expired"
}

// A waiting message has come to a controller.
type waiting struct {
	settle.Message
	stamp stamp
}

// readMessage reads our headers and takes them away: a controller holds many messages, and most
// have no others. The error says why the message is foreign; then it is left as it is.
func readMessage(d *amqp091.Delivery) (m waiting, err error) {
	if m, err = readStamp(d.Headers); err != nil {
		return m, err
	}
	m.Delivery = d
	if m.Envelope, err = delayer.ParseHeader(d.Headers); err != nil {
		return m, err
	}
	if m.stamp.priority > 0 {
		d.Priority = m.stamp.priority
	}
	delete(d.Headers, message.Stamp)
	delete(d.Headers, delayer.Header)
	if len(d.Headers) == 0 {
		d.Headers = nil
	}
	d.Exchange, d.ConsumerTag = "", ""
	return m, nil
}
