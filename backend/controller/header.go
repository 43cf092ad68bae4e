package controller

import (
	"crypto/rand"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Each process has a monotonic clock of its own: nanoseconds since it started. A due time by it
// means nothing to another process.
var (
	clockID    = rand.Text()
	clockStart = time.Now()
)

// reading is a time on this process's monotonic clock.
func reading(t time.Time) time.Duration { return t.Sub(clockStart) }

// A stamp is what a message carries in the header [message.Stamp] while it waits.
type stamp struct {
	clock  string        // the process that wrote it
	due    time.Duration // the due time, by that process's clock
	hop    time.Duration // the TTL of the queue that the message was sent to; 0: straight to the intake
	left   time.Duration // what remains of the delay after that
	at     int64         // the due time in ms by the broker's clock; 0: it was not known
	since  int64         // what that clock showed, at most, when it was reckoned
	ticket bool          // the message may be cancelled
	key    *string       // the user's routing key; nil: the message has kept it
	to     []any         // the delivery keys of its destinations, strings
	bcc    []any         // the user's own BCC, which the broker takes away, strings
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

// restamp is the stamp for the next hop, by this process's clock. It lacks what only slots use.
func (s stamp) restamp(now time.Time, remaining, hop time.Duration) stamp {
	return stamp{clock: clockID, due: reading(now) + remaining, hop: hop, left: remaining - hop, to: s.to, bcc: s.bcc, ticket: s.ticket}
}
