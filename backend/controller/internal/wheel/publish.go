package wheel

import (
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// What follows is decided where messages are published: by any process, with what it knows of the
// broker's clock, which must be known.

// Enter places a message that has so long to wait: in the slot of which turn, due when, and within
// which time it must be written. A message that was not is placed anew. For one that is confirmed later, ask
// Late.
func (w Wheel) Enter(now Now, left time.Duration) (to Turn, due Due, within time.Duration) {
	due = now.reckon(left)
	to, within = w.PlaceOf(now, due)
	return to, due, min(within, brokertime.NoticedWithin) // if the broker's clock was set since, that is known by then
}

// Late reports whether a message that was confirmed just now may be in a slot that is not consumed any more.
func (w Wheel) Late(now Now, to Turn) bool {
	return !now.Known || now.Clock.Latest.After(w.WriteBy(to))
}

// PlaceOf returns the turn in whose slot something waits that is due then. It must be written within a
// time, or nobody may expect it there any more.
func (w Wheel) PlaceOf(now Now, due Due) (to Turn, within time.Duration) {
	to = w.Place(now.Clock.Earliest, now.shown(due))
	return to, w.WriteBy(to).Sub(now.Clock.Latest)
}

// PlacesOf returns where a change is to be written for what is due then, one after the other. Shortly after the
// broker's clock was set forward, who decides about the message may not have noticed that, and expect
// changes where it was due before.
func (w Wheel) PlacesOf(now Now, due Due) (to []Turn, within time.Duration) {
	first, within := w.PlaceOf(now, due)
	by := now.recent(due)
	if by == 0 {
		return []Turn{first}, within
	}
	before := w.Place(now.Clock.Earliest.Add(-by), now.shown(due).Add(-by))
	return []Turn{first, before}, min(within, w.WriteBy(before).Sub(now.Clock.Latest.Add(-by)))
}

// InTime reports whether what is due then can still be changed. It is asked before a change is
// written, and again after its confirm. Who decides about the message may not have noticed yet that the
// broker's clock was set back: From counts that. Or this process may have been told of a step forward
// that it has not noticed itself: then the message is due sooner than it seems.
func InTime(now Now, due Due) bool {
	return now.Known && !now.Clock.From.Add(AcceptedBefore+now.recent(due)).After(now.shown(due))
}

// Written is what became of a change that was confirmed.
type Written int

// What became of it.
const (
	Certain   Written = iota // it will be known before its message is decided about
	Again                    // it is to be written again: it may be where nobody expects it any more
	Uncertain                // it may be known too late
)

// Confirmed says what became of a change that was written a while ago, and confirmed just now.
func Confirmed(now Now, due Due, after time.Duration) Written {
	switch {
	case !InTime(now, due):
		return Uncertain
	case after > WrittenWithin:
		return Again
	}
	return Certain
}

// PostponedTo is the due time of a message that is postponed, by so long from now. ok is false if that
// is earlier than it is due.
func PostponedTo(now Now, was Due, delay time.Duration) (next Due, ok bool) {
	next = now.reckon(delay)
	return next, !now.shown(next).Before(now.shown(was))
}
