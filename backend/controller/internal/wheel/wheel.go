// Package wheel is the geometry of a hierarchical timing wheel whose slots are queues. It is pure:
// it knows times and names no queue.
//
// A level is a ring of slots of the same width. The messages of a slot are due within one width of
// time, its turn. When the ring has gone round, the slot has its next turn.
//
//	        lead   width    linger                       reach
//	      ├──────┼───────┼──────────┤              ├──────────────────┤
//	      │ consumed for turn n     │ at rest: nothing comes, nothing is read
//	──────┴──────┴───────┴──────────┴──────────────┬──────────────────┬────────→ time
//	                        messages of the next turn may be written  turn n + Slots
//
// A publisher writes into the slots that begin at most one reach ahead. A controller consumes a slot
// from one lead before its turn until one linger after it. The ring is long enough that nobody
// writes for the next turn while the slot is still consumed for this one:
//
//	Slots · Width = Reach + Width + linger
//
// So what is in a slot when its consumption ends is nothing, and whoever writes late, by up to one
// linger, writes into a slot that is still consumed: the message is taken at once.
package wheel

import (
	"fmt"
	"strings"
	"time"
)

// A Level is a ring of slots.
type Level struct {
	Name  string // in the names of its queues
	Slots int
	Width time.Duration
	Reach time.Duration // messages with a longer remaining delay go to the next level
	Lead  time.Duration // a slot is consumed this long before its turn begins
}

// linger is how long a slot is consumed after its turn.
func (l Level) linger() time.Duration {
	return time.Duration(l.Slots)*l.Width - l.Reach - l.Width
}

// A Wheel is a list of levels, the shortest first.
type Wheel []Level

// String lists the rings: two wheels that share queues must be equal.
func (w Wheel) String() string {
	var rings []string
	for _, l := range w {
		rings = append(rings, fmt.Sprintf("%dx%v", l.Slots, l.Width))
	}
	return strings.Join(rings, "+")
}

// Default is the wheel of every topology. Each level reaches a turn of the next one and its lead, so
// that all messages of that turn can go down as soon as it is consumed. The first level lingers for
// longer than a broker takes to notice that a consumer's machine is gone.
func Default() Wheel {
	const day = 24 * time.Hour
	return Wheel{
		{Name: "seconds", Slots: 64, Width: 3 * time.Second, Reach: 150 * time.Second, Lead: 3 * time.Second},
		{Name: "minutes", Slots: 96, Width: time.Minute, Reach: 75 * time.Minute, Lead: time.Minute},
		{Name: "hours", Slots: 32, Width: time.Hour, Reach: 27 * time.Hour, Lead: 12 * time.Minute},
		{Name: "days", Slots: 32, Width: day, Reach: 30*day + 12*time.Hour, Lead: 2 * time.Hour},
		{Name: "months", Slots: 12, Width: 30 * day, Reach: 300 * day, Lead: 12 * time.Hour},
	}
}

const (
	// near is the remaining delay that is always held in memory.
	near = 3 * time.Second
	// held is the longest remaining delay that is held in memory. The broker closes the channel of
	// a consumer that holds a message for 30 minutes.
	held = 2 * time.Minute
)

// A Slot is one queue.
type Slot struct{ Level, Index int }

// A Turn is the time for which a slot serves: Number widths after the Unix epoch, for one width.
type Turn struct {
	Level  int
	Number int64
}

// None is the turn of a queue that is no slot.
var None = Turn{Level: -1}

// Slot is the slot that serves in this turn.
func (w Wheel) Slot(t Turn) Slot {
	if t == None {
		return Slot{Level: -1}
	}
	slots := int64(w[t.Level].Slots)
	return Slot{t.Level, int(((t.Number % slots) + slots) % slots)}
}

// Slots lists all slots.
func (w Wheel) Slots() []Slot {
	var all []Slot
	for level, l := range w {
		for index := range l.Slots {
			all = append(all, Slot{level, index})
		}
	}
	return all
}

// begin is when a turn begins.
func (w Wheel) begin(t Turn) time.Time {
	return time.UnixMilli(t.Number * w[t.Level].Width.Milliseconds())
}

// opens is when the slot of a turn is consumed from, closes until when.
func (w Wheel) opens(t Turn) time.Time { return w.begin(t).Add(-w[t.Level].Lead) }
func (w Wheel) closes(t Turn) time.Time {
	return w.begin(t).Add(w[t.Level].Width + w[t.Level].linger())
}

// Past reports whether a turn is over.
func (w Wheel) Past(t Turn, now time.Time) bool {
	return !now.Before(w.begin(t).Add(w[t.Level].Width))
}

// at is the turn of a level at a time.
func (w Wheel) at(level int, t time.Time) Turn {
	width, ms := w[level].Width.Milliseconds(), t.UnixMilli()
	number := ms / width
	if ms%width < 0 {
		number--
	}
	return Turn{level, number}
}

// Place returns where a message waits. Beyond the reach of the last level it goes to that level's
// last slot, and on from there when that has its turn.
func (w Wheel) Place(now, due time.Time) Turn {
	if due.Before(now) {
		due = now
	}
	last := len(w) - 1
	for level, l := range w {
		if due.Sub(now) <= l.Reach {
			return w.at(level, due)
		}
	}
	return w.at(last, now.Add(w[last].Reach))
}

// WriteBy is when a message must have been written that goes to the slot of a turn. It leaves as
// long again for what a broker may do before the message is in its queue.
func (w Wheel) WriteBy(t Turn) time.Time {
	l := w[t.Level]
	return w.begin(t).Add(l.Width + l.linger()/2)
}

// Open lists the turns whose slots are to be consumed, by the bounds of the time. No slot is listed
// twice: where the bounds are far apart, the later turn counts.
func (w Wheel) Open(earliest, latest time.Time) []Turn {
	var open []Turn
	for level, l := range w {
		first := w.at(level, earliest.Add(-l.Width-l.linger())).Number + 1
		last := w.at(level, latest.Add(l.Lead)).Number
		for number := max(first, last-int64(l.Slots)+1); number <= last; number++ {
			open = append(open, Turn{level, number})
		}
	}
	return open
}

// Serves is the turn whose messages are in a slot: the one that publishers write for, from one reach
// before it until the slot is at rest.
func (w Wheel) Serves(s Slot, now time.Time) (begin, end time.Time) {
	l := w[s.Level]
	slots, last := int64(l.Slots), w.at(s.Level, now.Add(l.Reach)).Number
	back := (((last - int64(s.Index)) % slots) + slots) % slots
	begin = w.begin(Turn{s.Level, last - back})
	return begin, begin.Add(l.Width)
}

// Upcoming is the first turn of a slot that is not consumed yet.
func (w Wheel) Upcoming(s Slot, now time.Time) Turn {
	l := w[s.Level]
	next := Turn{s.Level, w.at(s.Level, now.Add(l.Lead)).Number + 1}
	slots := int64(l.Slots)
	next.Number += (((int64(s.Index) - next.Number) % slots) + slots) % slots
	return next
}

// A Visit is why a slot is consumed.
type Visit struct {
	Turn
	Resting bool // not for its turn, which is still to come, but for what was left behind
	Fits    bool // memory can hold all of the slot
}

// A Step is what a controller does with a message.
type Step int

// The steps.
const (
	Deliver Step = iota // it is due
	Hold                // keep it in memory until it is due
	Move                // publish it to another slot
	Leave               // it waits for a later turn of the slot that it is in
)

// Next decides about a message of a visited slot. to is where Move leads.
func (w Wheel) Next(v Visit, now, due time.Time) (step Step, to Turn) {
	remaining := due.Sub(now)
	switch {
	case remaining <= 0:
		return Deliver, to
	case v.Resting && !due.Before(w.begin(v.Turn)):
		return Leave, to
	case remaining <= near, v.Fits && remaining <= held:
		return Hold, to
	}
	to = w.Place(now, due)
	switch {
	case to == v.Turn && remaining <= held:
		return Hold, to
	case w.Slot(to) == w.Slot(v.Turn):
		return Leave, to
	}
	return Move, to
}
