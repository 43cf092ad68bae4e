package bench

import "time"

// A Sample is one message's course. Times are on the process's monotonic clock, since the recorder
// was made.
type Sample struct {
	ID       int           // unique in a run; messages that are not measured have ids too
	Delay    time.Duration // what was asked of the Delayer
	Intended time.Duration // when Publish was to be called
	Sent     time.Duration // just before Publish was called
	Returned time.Duration // when Publish returned
	Err      error         // what it returned; nil is a promise
	Arrived  time.Duration // the first arrival, if Copies > 0
	Copies   int           // how often it arrived
}

// Due is when the message was meant to arrive.
func (s Sample) Due() time.Duration { return s.Intended + s.Delay }

// Lateness is how long after Due the message arrived. It tells nothing if Copies is 0.
func (s Sample) Lateness() time.Duration { return s.Arrived - s.Due() }

// Early says that the message arrived before its delay was over. It counts from Sent, not from
// Intended: a late Publish must not hide an early delivery.
func (s Sample) Early() bool { return s.EarlyBy() > 0 }

// EarlyBy is how much of the delay was missing when the message arrived; 0 if it was not early.
func (s Sample) EarlyBy() time.Duration {
	if s.Copies == 0 {
		return 0
	}
	return max(0, s.Sent+s.Delay-s.Arrived)
}

// Published says that Publish promised the message.
func (s Sample) Published() bool { return s.Sent > 0 && s.Err == nil }

// Lost says that a promised message did not arrive.
func (s Sample) Lost() bool { return s.Published() && s.Copies == 0 }
