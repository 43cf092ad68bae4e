package wheel

import (
	"fmt"
	"strings"
	"time"
)

// A Level is a ring of slots of the same width. The messages of a slot are due within one width of
// time, its turn. When the ring has gone round, the slot has its next turn.
//
//	        lead   width    linger                       reach
//	      ├──────┼───────┼──────────┤              ├──────────────────┤
//	      │ consumed for turn n     │ at rest: nothing comes, nothing is read
//	──────┴──────┴───────┴──────────┴──────────────┬──────────────────┬────────→ time
//	                        messages of the next turn may be written  turn n + Slots
//
// A publisher writes into the slots that begin at most one reach ahead. The leader consumes a slot
// from one lead before its turn until one linger after it. The ring is long enough that nobody
// writes for the next turn while the slot is still consumed for this one:
//
//	Slots · Width = Reach + Width + linger
//
// So what is in a slot when its consumption ends is nothing, and whoever writes late, by up to one
// linger, writes into a slot that is still consumed: the message is taken at once.
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

// Default is the wheel of every topology. Each queue costs the broker processor time although it is
// empty, and each hop of a message costs as much as some seconds of a queue. What is chosen with
// care:
//
//   - Each level reaches a turn of the next one, its lead, and settled more. So all messages of a
//     turn can go down as soon as its slot is consumed, and no change for one of them is written to
//     that slot any more: see [Machine].
//   - The first level lingers for longer than a broker takes to notice that a process is gone, and
//     for as long again: what that process had written may come late. The others linger for longer
//     than most alarms of a broker last: their next turn is far.
//   - The second level is reached with a delay of more than two minutes: a usual burst takes one
//     hop. The third is with more than half an hour.
//   - A slot of the first level is held in memory: 64,000 messages at 16,000 a second.
func Default() Wheel {
	const day = 24 * time.Hour
	return Wheel{
		{Name: "4s", Slots: 52, Width: 4 * time.Second, Reach: 122 * time.Second, Lead: 4 * time.Second},
		{Name: "1m", Slots: 40, Width: time.Minute, Reach: 31 * time.Minute, Lead: 48 * time.Second},
		{Name: "20m", Slots: 10, Width: 20 * time.Minute, Reach: 155 * time.Minute, Lead: 10 * time.Minute},
		{Name: "2h", Slots: 11, Width: 2 * time.Hour, Reach: 17*time.Hour + 30*time.Minute, Lead: 30 * time.Minute},
		{Name: "12h", Slots: 14, Width: 12 * time.Hour, Reach: 6 * day, Lead: 5 * time.Hour},
	}
}

// A Slot is one queue of the wheel.
type Slot struct{ Level, Index int }

// Intake is the queue that is no slot. What has no slot yet goes there, and who consumes it leads.
var Intake = Slot{Level: -1}

// A Turn is the time for which a slot serves: Number widths after the Unix epoch, for one width.
type Turn struct {
	Level  int
	Number int64
}

// Slot is the slot that serves in this turn.
func (w Wheel) Slot(t Turn) Slot {
	return Slot{t.Level, int(w[t.Level].lap(t.Number))}
}

// lap is how far a number of widths goes round the ring beyond whole laps.
func (l Level) lap(number int64) int64 {
	slots := int64(l.Slots)
	return (number%slots + slots) % slots
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

// begin is when a turn begins, end when it is over.
func (w Wheel) begin(t Turn) time.Time {
	return time.UnixMilli(t.Number * w[t.Level].Width.Milliseconds())
}
func (w Wheel) end(t Turn) time.Time { return w.begin(t).Add(w[t.Level].Width) }

// opens is when the slot of a turn is consumed from, closes until when.
func (w Wheel) opens(t Turn) time.Time  { return w.begin(t).Add(-w[t.Level].Lead) }
func (w Wheel) closes(t Turn) time.Time { return w.end(t).Add(w[t.Level].linger()) }

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
func (w Wheel) WriteBy(t Turn) time.Time { return w.end(t).Add(w[t.Level].linger() / 2) }

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

// Upcoming is the first turn of a slot that is not consumed yet.
func (w Wheel) Upcoming(s Slot, now time.Time) Turn {
	l := w[s.Level]
	next := Turn{s.Level, w.at(s.Level, now.Add(l.Lead)).Number + 1}
	next.Number += l.lap(int64(s.Index) - next.Number)
	return next
}

// Serves is the turn whose messages are in a slot: the one that publishers write for, from one
// reach before it until the slot is at rest.
func (w Wheel) Serves(s Slot, now time.Time) (begin, end time.Time) {
	l := w[s.Level]
	last := w.at(s.Level, now.Add(l.Reach)).Number
	begin = w.begin(Turn{s.Level, last - l.lap(last-int64(s.Index))})
	return begin, begin.Add(l.Width)
}
