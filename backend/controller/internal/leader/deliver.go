package leader

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// A destination has its own queue of attempts. One that refuses, or does not answer, costs its own
// messages: while it pauses, they go back into slots.
type destination struct {
	name    string
	flying  int // messages that are being delivered
	bytes   int // of them
	heard   time.Duration
	waiting []*Item
	streak  int           // of refusals
	until   time.Duration // it pauses
}

const (
	// mostFlying is how many messages of a destination are being delivered at a time: few enough
	// that one that is silent takes nothing from others. fewFlying is for after it has refused one.
	mostFlying, fewFlying = 150, 8
	// mostBytes is how much they may be. One message may be larger.
	mostBytes = 4 << 20
	// firstRefused and longestRefused are how long a destination pauses.
	firstRefused, longestRefused = time.Second, 20 * time.Second
	// silentDest is how long a destination may take to answer.
	silentDest = 5 * time.Second
	// forgottenAfter is how long after its pause it is known that a destination refused.
	forgottenAfter = time.Minute
)

// due does what is to be done with a message whose time has come. It is false if that is not
// certain yet.
func (l *Leader) due(it *Item) bool {
	e := it.entry
	if it.Raw != nil {
		it.held = false
		l.do(Deliver{it})
		return true
	}
	if !it.decided {
		if !l.certain(it) {
			return false
		}
		if it.Ticket && len(e.next) > 0 {
			l.postpone(it)
			return true
		}
		it.decided, it.held = true, false
	}
	d := l.dests[it.To]
	if d == nil {
		d = &destination{name: it.To, heard: l.now.Mono}
		l.dests[it.To] = d
	}
	it.dest = d
	if len(d.waiting) > 0 {
		d.waiting = append(d.waiting, it)
		return true
	}
	l.attempt(it)
	return true
}

// orderFor is how long a message without a ticket waits for what is in slots for its turn, which
// may have to come before it.
const orderFor = 2 * time.Second

// certain reports whether a message may be delivered: nothing unread is due before it and, if it
// has a ticket, no change for it is unread.
func (l *Leader) certain(it *Item) bool {
	complete := it.entry.slot != nil && l.complete(l.rings.at(0, it.Due.Time()))
	if it.Ticket {
		return complete && l.marks.proves(it.Due)
	}
	return complete || l.now.Mono-it.overdue >= orderFor
}

// attempt delivers a message, which is the next of its destination.
func (l *Leader) attempt(it *Item) {
	d := it.dest
	room := d.flying == 0 || d.flying < mostFlying && d.bytes+it.Size() <= mostBytes
	switch {
	case l.now.Mono < d.until, d.streak > 0 && (!room || d.flying >= fewFlying):
		l.later(it)
	case !room:
		d.waiting = append(d.waiting, it)
	default:
		if d.flying == 0 {
			d.heard = l.now.Mono
		}
		d.flying++
		d.bytes += it.Size()
		it.flying = true
		l.do(Deliver{it})
	}
}

// sent notes what became of a message that was delivered, or of a foreign bundle that was kept.
func (l *Leader) sent(e Sent) {
	it := e.Item
	if it.Raw != nil {
		if e.Stored {
			l.finish(it.parcels[0].parcel)
			return
		}
		it.early, it.held = l.now.reckon(firstRefused), true // it is tried again
		it.Due = it.early
		heap.Push(&l.waiting, it)
		return
	}
	d := it.dest
	d.flying--
	d.bytes -= it.Size()
	d.heard = l.now.Mono
	it.flying = false
	switch {
	case it.parcels == nil: // it was written to a slot meanwhile
	case e.Stored:
		d.streak, d.until = 0, 0
		it.entry.item, it.entry.done = nil, true
		if slices.ContainsFunc(it.parcels, func(p part) bool { return p.left > 1 }) {
			l.known.finished++
		}
		l.finishItem(it)
		l.forget(it.entry)
	default:
		d.fail(l.now)
		l.later(it)
	}
	l.goOn(d)
}

// fail makes a destination pause.
func (d *destination) fail(now Now) {
	if now.Mono < d.until {
		return // another message has said so
	}
	d.streak++
	d.until = now.Mono + min(firstRefused<<min(d.streak-1, 10), longestRefused)
}

func (l *Leader) goOn(d *destination) {
	for len(d.waiting) > 0 && (d.flying < mostFlying && d.bytes < mostBytes || d.streak > 0) {
		next := d.waiting[0]
		d.waiting = d.waiting[1:]
		had := len(d.waiting)
		l.attempt(next)
		if len(d.waiting) > had {
			return
		}
	}
}

// later sends a message that is due back to a slot, until its destination has paused. Some are
// tried then, and the others a while after. It is certain that it is delivered, so it has no ticket
// any more.
func (l *Leader) later(it *Item) {
	pause := max(it.dest.until-l.now.Mono, firstRefused)
	pause += pause * time.Duration(it.At%1024) / 1024 // they come one by one
	it.Ticket, it.Wanted = false, cmp.Or(it.Wanted, it.Due)
	l.move(it, l.now.reckon(pause))
}

// lively is how long the broker may take to answer anything. While an alarm lasts it answers
// nothing.
const lively = 2 * time.Second

// hear notes that the broker has answered something. If it had answered nothing for a while, the
// destinations get their time anew.
func (l *Leader) hear() {
	if l.now.Mono-l.heard > lively {
		for _, d := range l.dests {
			d.heard = l.now.Mono
		}
	}
	l.heard = l.now.Mono
}

// waitsForDest reports whether a destination does not answer: then marks show whether the broker
// does.
func (l *Leader) waitsForDest() bool {
	for _, d := range l.dests {
		if d.flying > 0 && l.now.Mono-d.heard > lively {
			return true
		}
	}
	return false
}

// unpin writes a message to a slot that is being delivered for long, if its bundle keeps away what
// is behind it. It comes twice if its destination stores it after all.
func (l *Leader) unpin(it *Item) {
	if l.now.Mono-l.heard > lively || l.now.Mono-it.dest.heard < silentDest {
		return
	}
	copied := *it
	copied.flying, copied.decided, copied.slot, copied.entry = false, false, nil, nil
	l.leave(it)
	it.parcels, it.entry.item, it.entry.done = nil, nil, true
	l.later(&copied)
}

// stuck finds destinations that do not answer, and forgets those that have nothing to deliver.
func (l *Leader) stuck() {
	var silent []*destination
	for name, d := range l.dests {
		if d.flying == 0 && len(d.waiting) == 0 && (d.streak == 0 || l.now.Mono-d.until > forgottenAfter) {
			delete(l.dests, name)
		}
		if d.flying > 0 && l.now.Mono-d.heard > silentDest && l.now.Mono >= d.until {
			silent = append(silent, d)
		}
	}
	slices.SortFunc(silent, func(a, b *destination) int { return cmp.Compare(a.name, b.name) })
	for _, d := range silent {
		d.fail(l.now)
		l.goOn(d)
	}
}
