package leader

import (
	"container/heap"
	"time"
)

// slowTick is how often the leader looks at what changes slowly, idleTick while it has nothing.
const slowTick, idleTick = 50 * time.Millisecond, 500 * time.Millisecond

// tick does what is due, and returns when to do so again.
func (l *Leader) tick() (next time.Duration) {
	pace := slowTick
	switch {
	case !l.leading && len(l.marks.sent) > 0 && len(l.events) == 0: // its mark is in the log
		pace = markEvery
	case l.Rests():
		pace = idleTick
	}
	if l.now.Mono-l.told.Mono >= pace || l.now.Mono < l.told.Mono || l.told.Mono == 0 {
		l.tend()
	}
	l.deliverDue()
	l.flush(l.log, false)
	for _, s := range l.order {
		l.flush(s.source, false)
	}
	l.tellKnown()
	next = l.told.Mono + pace
	if len(l.waiting) > 0 && l.now.Known {
		left := l.waiting[0].early.Time().Sub(l.now.Clock.Earliest)
		next = min(next, l.now.Mono+max(left, time.Millisecond))
	}
	return max(next, l.now.Mono)
}

// tend looks at what changes slowly.
func (l *Leader) tend() {
	l.told = l.now
	l.writeMark()
	if l.known.asked > 0 && l.now.Mono-l.known.asked > silentAfter {
		l.recalled(Recalled{})
	}
	if l.known.asked > 0 || !l.leading || l.over || !l.now.Known {
		return
	}
	if l.clocked.Known { // whatever was known in between
		l.compare(l.clocked)
	}
	l.clocked = l.now
	if l.over {
		return
	}
	l.openTurns()
	l.peekSome()
	for _, s := range l.order {
		if s.tail == 0 && s.consumed && !s.drained && !s.releasing && l.silent[s.queue] <= l.now.Mono {
			l.writeTail(s)
		}
		l.missed(s)
	}
	l.abandon()
	l.flushRuns()
	l.makeRoom()
	l.stuck()
	l.closeTurns()
	if l.now.Mono-l.droppedSince > rememberedFor {
		l.droppedSince, l.droppedBefore, l.dropped = l.now.Mono, l.dropped, map[key]bool{}
	}
	if l.now.Mono-l.leads > inheritedFor {
		clear(l.known.inherited)
	}
	l.recheck = true
}

// compare notices that the broker's clock was set: another tenure takes all anew. After a short
// step back no mark of before counts, since changes are accepted for longer than was known.
func (l *Leader) compare(was Now) {
	passed := l.now.Mono - was.Mono
	if off := l.now.Clock.Latest.Sub(was.Clock.Latest) - passed; off.Abs() > setClock {
		l.surrender("the broker's clock was set")
		return
	}
	if off := l.now.Clock.Earliest.Sub(was.Clock.Earliest) - passed; off < -setBack {
		l.marks.back, l.marks.sent = time.Time{}, nil
		l.ownBegan = 0
	}
}

// deliverDue goes on with what is due.
func (l *Leader) deliverDue() {
	if l.over || !l.leading || !l.now.Known {
		return
	}
	if l.recheck {
		l.recheck = false
		l.decide()
	}
	for len(l.waiting) > 0 {
		it := l.waiting[0]
		if it.held && !l.isDue(it) {
			return
		}
		heap.Pop(&l.waiting)
		if !it.held {
			continue
		}
		it.overdue = l.now.Mono
		if n := len(l.waits); n > 0 && l.waits[n-1].Due == it.Due || !l.due(it) {
			l.waits = append(l.waits, it)
		}
	}
}

// decide goes on with what is due and was not certain. What is due together keeps its order.
func (l *Leader) decide() {
	undecided := l.waits[:0]
	for _, it := range l.waits {
		behind := len(undecided) > 0 && undecided[len(undecided)-1].Due == it.Due && l.now.Mono-it.overdue < orderFor
		if it.held && (behind || !l.due(it)) {
			undecided = append(undecided, it)
		}
	}
	clear(l.waits[len(undecided):])
	l.waits = undecided
}

// isDue reports whether the time of a message has come: by the broker's clock, or by that of this
// process if it has written the message.
func (l *Leader) isDue(it *Item) bool {
	return !it.Due.Time().After(l.now.Clock.Earliest) || it.own && it.Own != 0 && it.Own <= l.now.Mono
}
