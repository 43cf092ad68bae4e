package misrouted

import "time"

// An origin says when a message came to the misrouted queue.
type origin int

const (
	before origin = iota // before this consumer, at an unknown time
	outage               // while this process had no connection, or just before
	live                 // during this consumer's shift: just now
)

// facts are the inputs of a decision.
type facts struct {
	ours      bool // it has a header of ours
	reserved  bool // its destination is an object of the Delayer's own
	known     bool // remaining is
	remaining time.Duration
	came      origin
	vouched   bool // this process has bound the destination and has not seen it gone since
}

// An action is what to do with a message.
type action int

const (
	keep  action = iota // an operator must look at it
	delay               // it has not waited long enough: publish it again with the remaining delay
	send                // it is due, and its destination was not gone then: publish it there if it exists
)

// decide says what to do with a message. It never sends a message whose destination may have been
// gone when it was due. Whether that destination may have it now is for an operator to decide.
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
