package controller

import (
	"crypto/rand"
	"time"
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

// restamp is the stamp for the next hop, by this process's clock. It lacks what only slots use.
func (s stamp) restamp(now time.Time, remaining, hop time.Duration) stamp {
	return stamp{clock: clockID, due: reading(now) + remaining, hop: hop, left: remaining - hop, to: s.to, bcc: s.bcc, ticket: s.ticket}
}
