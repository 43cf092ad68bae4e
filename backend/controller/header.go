package controller

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/message"
)

// The header that a message carries between controllers is [message.Stamp], a table of these.
const (
	fieldClock = "clock" // the process that wrote it
	fieldDue   = "due"   // the due time, by that process's clock
	fieldHop   = "hop"   // the TTL of the queue that the message was sent to; 0: straight to the intake
	fieldLeft  = "left"  // what remains of the delay after that
	fieldTo    = "to"    // the delivery keys of its destinations
	fieldBCC   = "bcc"   // the user's own BCC, which the broker takes away; absent if there is none
)

// Each process has a monotonic clock of its own: nanoseconds since it started. A due time by it
// means nothing to another process.
var (
	clockID    = rand.Text()
	clockStart = time.Now()
)

// reading is a time on this process's monotonic clock.
func reading(t time.Time) time.Duration { return t.Sub(clockStart) }

// A stamp is what a message carries while it waits.
type stamp struct {
	clock     string
	due       time.Duration
	hop, left time.Duration
	to, bcc   []any // strings
}

// remaining is how much of the delay is left now.
//
// The process that wrote the stamp knows exactly. No other may use its due time, because clocks
// differ. To others, a message that has expired in its queue has waited as long as the queue's TTL.
// It has waited longer if no controller was there to take it: that makes it late, never early. A
// message that did not expire has not waited: someone has moved it, or the queue overflowed.
func (s stamp) remaining(now time.Time, expired bool) time.Duration {
	switch {
	case s.clock == clockID:
		return s.due - reading(now)
	case expired:
		return s.left
	}
	return s.hop + s.left
}

// expired says that a message has left its queue because its TTL had passed. Earlier entries of
// x-death were stripped, so there is one.
func expired(headers amqp091.Table) bool {
	deaths, _ := headers["x-death"].([]any)
	if len(deaths) != 1 {
		return false
	}
	death, _ := deaths[0].(amqp091.Table)
	return death["reason"] == "expired"
}

// restamp is the stamp for the next hop, by this process's clock.
func (s stamp) restamp(now time.Time, remaining, hop time.Duration) stamp {
	return stamp{clock: clockID, due: reading(now) + remaining, hop: hop, left: remaining - hop, to: s.to, bcc: s.bcc}
}

func (s stamp) table() amqp091.Table {
	t := amqp091.Table{
		fieldClock: s.clock, fieldDue: int64(s.due), fieldHop: int64(s.hop), fieldLeft: int64(s.left), fieldTo: s.to,
	}
	if len(s.bcc) > 0 {
		t[fieldBCC] = s.bcc
	}
	return t
}

// header is the stamp as a message carries it.
func (s stamp) header() amqp091.Table { return amqp091.Table{message.Stamp: s.table()} }

// readStamp reverses table. The error says why the message is foreign.
func readStamp(headers amqp091.Table) (stamp, error) {
	value, there := headers[message.Stamp]
	if !there {
		return stamp{}, fmt.Errorf("no header %s", message.Stamp)
	}
	t, ok := value.(amqp091.Table)
	if !ok {
		return stamp{}, fmt.Errorf("header %s is a %T", message.Stamp, value)
	}
	clock, ok1 := t[fieldClock].(string)
	due, ok2 := t[fieldDue].(int64)
	hop, ok3 := t[fieldHop].(int64)
	left, ok4 := t[fieldLeft].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 || clock == "" {
		return stamp{}, fmt.Errorf("header %s lacks its times", message.Stamp)
	}
	if hop < 0 || hop > int64(longest) || left > int64(longest) || left < -int64(longest) || due < 0 {
		return stamp{}, fmt.Errorf("header %s has impossible times", message.Stamp)
	}
	s := stamp{clock: clock, due: time.Duration(due), hop: time.Duration(hop), left: time.Duration(left)}
	var err error
	if s.to, err = keys(t[fieldTo]); err == nil {
		s.bcc, err = keys(t[fieldBCC])
	}
	switch {
	case err != nil:
		return stamp{}, err
	case len(s.to) == 0:
		return stamp{}, fmt.Errorf("header %s has no destination", message.Stamp)
	}
	for _, key := range s.to {
		if !strings.HasPrefix(key.(string), message.Reserved) {
			return stamp{}, fmt.Errorf("header %s has the destination %.64q", message.Stamp, key)
		}
	}
	return s, nil
}

var errKeys = errors.New("header " + message.Stamp + " has keys that are no strings of at most 255 bytes")

// keys checks a list of routing keys, which the broker will read.
func keys(value any) ([]any, error) {
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		return nil, errKeys
	}
	for _, item := range list {
		if key, ok := item.(string); !ok || len(key) > 255 {
			return nil, errKeys
		}
	}
	return list, nil
}
