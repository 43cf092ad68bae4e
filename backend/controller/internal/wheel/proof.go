package wheel

import (
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A message with a ticket is delivered only when all changes have been read that were accepted for
// it. The leader writes a mark into each slot in which such a change may be, and waits until it
// comes back: then it has read all that was stored before. A change is accepted if it was confirmed
// AcceptedBefore the message is due. So a mark is enough that was written within MarkedBefore of
// that time, or later.
//
//	        AcceptedBefore            MarkedBefore            due
//	──────────────┼───────────────────────┼────────────────────┼──→ the broker's time
//	changes are   │ for what processes    │ a mark that was written
//	confirmed     │ take the time for     │ from here on covers it
//
// Into a slot longer than seconds no change is written when its turn has come near: its message is
// within reach of the level below by then. There any mark of the turn is enough.
const (
	AcceptedBefore = 5 * time.Second
	MarkedBefore   = 3 * time.Second
	// WrittenWithin is how long the confirm of a change may take. What is confirmed later is
	// written again: it may be in a slot in which nobody expects it any more.
	WrittenWithin = 10 * time.Second
)

// mark writes a mark into a slot if one is wanted.
func (m *Machine) mark(now Now, v *visit) {
	last := v.back
	if n := len(v.sent); n > 0 {
		last = v.sent[n-1]
	}
	sought := last.mono < v.markAfter
	if !m.ticketed[v.turn] && !sought || !v.consumed || v.slot == Intake || m.frozen() {
		return
	}
	lost := len(v.sent) > 0 && now.Mono-max(last.mono, v.touched) > markAgain // a purge took it, or it was not written
	if !sought && !lost && !m.proves(now, v, last) {
		return
	}
	m.marks++
	next := mark{id: MarkID{m.cfg.Tenure, m.marks}, at: now.Clock.Earliest, mono: now.Mono}
	v.sent = append(v.sent, next)
	m.shell.Mark(v.slot, next.id)
}

// proves reports whether a mark that is written now proves more than the last one.
func (m *Machine) proves(now Now, v *visit, last mark) bool {
	if v.slot.Level > 0 || v.resting {
		return last == mark{}
	}
	enough := m.cfg.Wheel.end(v.turn).Add(-MarkedBefore)
	for at := m.cfg.Wheel.begin(v.turn).Add(-markEvery); !now.Clock.Earliest.Before(at); at = at.Add(markEvery) {
		if last.at.Before(at) {
			return true
		}
		if !at.Before(enough) {
			return false
		}
	}
	return false
}

// marked notes a mark that came back. One that was given back proves nothing: what is given back
// goes behind what was given back before, so the mark may have overtaken what it was stored behind.
// It is written again.
//
// The first mark that comes to another consumer of the visit proves nothing either, nor do those
// that were written before it came. In a cluster RabbitMQ delivers by the member on the channel's
// node, which may be behind: what was on its way to the former consumer is given back then, behind
// what has come to the new one. What is given back is in the queue when the next mark is written.
func (m *Machine) marked(msg *Message) {
	v := msg.visit
	i := slices.IndexFunc(v.sent, func(sent mark) bool { return sent.id == msg.Mark })
	if i < 0 {
		return // it was written for another turn, or by another tenure
	}
	back := v.sent[i]
	v.sent = v.sent[i+1:]
	if msg.Consumer > v.passed {
		v.passed, v.sent = msg.Consumer, nil
		return
	}
	if msg.Again {
		return
	}
	v.back, m.heard, v.ending = back, max(m.heard, back.mono), v.resting
	m.readUntil(v.slot, v.turn.Number)
}

// makeRoom takes more of visits that are full while nothing comes: the mark may be behind further
// messages. Where memory does not permit it, due messages about which nothing is proved yet go to a
// slot that is consumed now. So they do while memory is full: then nothing is read, and no mark
// could come. And so do those of a deaf visit, which then can be renewed.
func (m *Machine) makeRoom(now Now) {
	full := func(v *visit) bool { return v.consumed && v.inHand >= v.prefetch && now.Mono-v.touched > unclear }
	for _, v := range m.order {
		if full(v) {
			m.widen(v, 1)
		}
	}
	m.unproven = slices.DeleteFunc(m.unproven, func(msg *Message) bool {
		if !full(msg.visit) && !m.deaf(msg.visit) && !m.Full() && msg.age(now) < heldFor {
			return false
		}
		m.move(now, msg)
		return true
	})
}

// proven reports whether all changes are known that were accepted for what is due then. If not, it
// sees to it that they will be.
func (m *Machine) proven(now Now, d brokertime.Due) bool {
	if !now.Known || m.frozen() || m.surveys() {
		return false
	}
	due, proven := d.Time(), true
	for level := range m.cfg.Wheel {
		t := m.cfg.Wheel.at(level, due)
		if !m.hasRead(now, t, due) {
			proven = false // and go on: marks are to be written at once
		}
	}
	return proven
}

// hasRead reports whether a slot holds no change that was accepted for what is due then, in this
// turn.
func (m *Machine) hasRead(now Now, t Turn, due time.Time) bool {
	s := m.cfg.Wheel.Slot(t)
	v := m.visits[s]
	switch {
	case m.read[s] > t.Number:
		return true
	case v == nil:
		if m.survey[s] == nil && m.cfg.Wheel.end(t).Before(now.Clock.Earliest) {
			m.look(s, false)
		}
		return false
	}
	m.ticketed[v.turn] = true
	if v.turn != t || v.resting || v.back == (mark{}) {
		return false
	}
	return t.Level > 0 || !v.back.at.Before(due.Add(-MarkedBefore))
}
