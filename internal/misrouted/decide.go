package misrouted

import "time"

// An origin says when a message came to the misrouted queue.
type origin int

const (
	before origin = iota // before this consumer, at a time that nobody here knows
	outage               // while this process had no connection, or a moment before
	live                 // while this consumer was at work: a moment ago
)

// facts are what a decision depends on.
type facts struct {
	ours      bool // it has a header of ours
	reserved  bool // its destination is an object of the Delayer's own
	known     bool // remaining is
	remaining time.Duration
	came      origin
	vouched   bool // this process has bound the destination, and never saw it gone since
}

// An action is what is done with a message.
type action int

const (
	keep  action = iota // an operator must look at it
	delay               // it has not waited for long enough: publish it again with what remains
	send                // it is due, and its destination was not gone then: publish it there, if it exists
)

// decide says what to do with a message. It never sends one on whose destination may have been gone when it was due:
// since when that is back, and what for, an operator knows.
func decide(f facts) action {
	switch {
	case !f.ours, f.reserved, !f.known:
		return keep
	case f.remaining > 0:
		return delay
	case f.came == live, f.came == outage && f.vouched:
		return send
	}
	return keep
}
