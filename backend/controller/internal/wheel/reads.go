package wheel

import (
	"slices"
	"time"
)

// Reads is when a controller begins to take messages from the slot of a turn.
func (w Wheel) Reads(t Turn) time.Time { return w.opens(t) }

// LastRead is when the last slot is read in which a message may be that is due then. From then on it
// is in memory.
func (w Wheel) LastRead(due time.Time) time.Time { return w.opens(w.at(0, due)) }

// Whereabouts lists the turns in whose slots, which are not read yet, a message may be that is due
// then and was put into a slot that is read at a time. None are listed if it is in memory.
func (w Wheel) Whereabouts(now, read, due time.Time) []Turn {
	if now.Before(read) {
		return w.read(read, due)
	}
	// It was moved when that slot was read, or later.
	first, last := w.Place(read, due), w.Place(now, due)
	turns := []Turn{first, last}
	for level := last.Level + 1; level < first.Level; level++ {
		turns = append(turns, w.at(level, due))
	}
	slices.SortFunc(turns, func(a, b Turn) int { return a.Level - b.Level })
	turns = slices.Compact(turns)
	return slices.DeleteFunc(turns, func(t Turn) bool { return !w.opens(t).After(now) })
}

// read finds the turn that is read at a time.
func (w Wheel) read(read, due time.Time) []Turn {
	for level, l := range w {
		t := w.at(level, read.Add(l.Lead))
		if w.opens(t).Equal(read) && (t == w.at(level, due) || level == len(w)-1) {
			return []Turn{t}
		}
	}
	return nil
}
