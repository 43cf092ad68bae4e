package wheel

import (
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// What follows is decided where messages are published: by any process, with what it knows of the
// broker's clock, which must be known.

// Enter places a message that has so long to wait: in the slot of which turn, due when, and within
// which time it must be written. A message that was not is placed anew. For one that is confirmed
// later, ask Late.
func (w Wheel) Enter(now Now, left time.Duration) (to Turn, due brokertime.Due, within time.Duration) {
	due = now.reckon(left)
	to, within = w.PlaceOf(now, due)
	return to, due, min(within, brokertime.NoticedWithin) // if the broker's clock was set since, that is known by then
}

// Late reports whether a message that was confirmed just now may be in a slot that is not consumed
// any more.
func (w Wheel) Late(now Now, to Turn) bool {
	return !now.Known || now.Clock.Latest.After(w.WriteBy(to))
}

// PlaceOf returns the turn in whose slot something waits that is due then. It must be written
// within a time, or nobody may expect it there any more.
func (w Wheel) PlaceOf(now Now, due brokertime.Due) (to Turn, within time.Duration) {
	to = w.Place(now.Clock.Earliest, due.Time())
	return to, w.WriteBy(to).Sub(now.Clock.Latest)
}

// A Request is a Cancel or a Postpone that is being made. Its change is written, perhaps again,
// until it is certain what comes of that: a Request decides, as [Machine] does, and does nothing.
type Request struct {
	wheel    Wheel
	due      brokertime.Due // the change is for the message that is due then
	began    Now            // the last attempt
	attempts int
	stored   bool // a change may be stored
}

// A Fate is what comes of a request.
type Fate int

// The fates.
const (
	Certain   Fate = iota // the change is known before its message is decided about
	Uncertain             // it may be known, or too late, or be stored nowhere
	Unsent                // it is stored nowhere
)

// mostAttempts is how often a change is written: twice is as good as once.
const mostAttempts = 3

// Request returns a request for a message at one of its due times.
func (w Wheel) Request(due brokertime.Due) *Request { return &Request{wheel: w, due: due} }

// Begin begins an attempt. It returns where the change is to be written, and within which time. ok
// is false if it is too late for that.
func (r *Request) Begin(now Now) (to Turn, within time.Duration, ok bool) {
	r.began = now
	r.attempts++
	if !r.inTime(now) {
		return Turn{}, 0, false
	}
	to, within = r.wheel.PlaceOf(now, r.due)
	return to, within, true
}

// Ended says what comes of the request after an attempt, and whether to make another. A change that
// took long to be confirmed is written again: it may be where nobody expects it any more. What was
// refused for good is not.
func (r *Request) Ended(now Now, o Outcome, forGood bool) (f Fate, again bool) {
	switch o {
	case Accepted:
		took := max(now.Mono-r.began.Mono, now.Wall.Sub(r.began.Wall))
		if r.inTime(now) && took <= WrittenWithin {
			return Certain, false
		}
		r.stored, again = true, r.inTime(now)
	case Unknown:
		r.stored, again = true, true
	case Refused:
		again = !forGood
	}
	f = Unsent
	if r.stored {
		f = Uncertain
	}
	return f, again && r.attempts < mostAttempts
}

// inTime reports whether the message can still be changed. It is asked before a change is written,
// and again after its confirm. Who decides about the message may not have noticed yet that the
// broker's clock was set back: From counts that.
func (r *Request) inTime(now Now) bool {
	return now.Known && !now.Clock.From.Add(AcceptedBefore).After(r.due.Time())
}

// PostponedTo is the due time of a message that is postponed, by so long from now. ok is false if
// that is earlier than it is due.
func PostponedTo(now Now, was brokertime.Due, delay time.Duration) (next brokertime.Due, ok bool) {
	next = now.reckon(delay)
	return next, next >= was
}
