package wheel

import (
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A look is for what may have been left in a slot between its turns.
type look struct {
	first bool // it may be of an earlier tenure
}

// look has a slot looked at, as it is from now on: what it was counted for before may be older.
func (m *Machine) look(s Slot, first bool) {
	was := m.survey[s]
	m.survey[s] = &look{first: first || was != nil && was.first}
	m.next = append(m.next, s)
}

// surveyLate is how long after the first summons was stored the survey begins, at most.
const surveyLate = 5 * time.Second

// Summoned says that a summons is stored that was written at a time. With the first of this tenure
// all slots are looked at. An alarm of the broker keeps back what earlier tenures have written, and
// stores it when it ends: in slots that were found to be empty by then. A copy of a message would
// lie there that was dropped meanwhile, and nobody would know that any more when it is found. While
// nothing is stored nothing can be delivered either. Others had written on other connections: if
// the summons has waited, they are waited for as long again.
func (m *Machine) Summoned(now Now, wrote time.Duration) {
	if m.over {
		return
	}
	m.at(now)
	if m.leading && m.surveyAt == 0 && wrote >= m.led {
		m.surveyAt = now.Mono + min(max(1, now.Mono-m.led), surveyLate)
	}
}

// surveyWhenDue looks at all slots when it is time to, and once more a while later: if the broker's
// clock was set forward, which has ended the tenure of before, who had not noticed that has written
// to slots that were at rest.
func (m *Machine) surveyWhenDue(now Now) {
	if !m.surveyed && m.surveyAt > 0 && now.Mono >= m.surveyAt {
		m.surveyed = true
		m.surveyAll(true)
	}
	if m.surveyed && !m.lookedIn && now.Mono-m.led > brokertime.NoticedWithin {
		m.lookedIn = true
		m.surveyAll(false)
	}
}

// surveyAll looks at all slots. Another mark tells of those that are being looked at already.
func (m *Machine) surveyAll(first bool) {
	for _, v := range m.order {
		if v.resting {
			v.unread()
		}
	}
	for _, s := range m.cfg.Wheel.Slots() {
		m.look(s, first)
	}
}

// surveys reports whether something may be left that nobody has seen.
func (m *Machine) surveys() bool {
	if !m.surveyed {
		return true
	}
	for _, l := range m.survey {
		if l.first {
			return true
		}
	}
	return false
}

// seen ends the look at a slot.
func (m *Machine) seen(s Slot) {
	delete(m.survey, s)
	m.recheck = true
}

// countSome counts some of the slots that are looked at.
func (m *Machine) countSome() {
	busy := len(m.asked)
	for _, v := range m.order {
		if v.resting && m.survey[v.slot] != nil { // not all of it has been read
			busy++
		}
	}
	for ; busy < counting && len(m.next) > 0; m.next = m.next[1:] {
		s := m.next[0]
		l := m.survey[s]
		if l == nil || m.asked[s] != nil {
			continue
		}
		if v := m.visits[s]; v != nil {
			if !v.resting { // it is its turn
				m.seen(s)
			}
			continue
		}
		m.asked[s] = l
		m.shell.Count(s)
		busy++
	}
}

// Counted answers Count: what was in a queue when it was counted. ok is false if that failed, or
// the answer is not certain.
func (m *Machine) Counted(now Now, s Slot, ready, consumers int, ok bool) {
	if m.over {
		return
	}
	m.at(now)
	if s == Intake {
		if ok && consumers == 0 { // see renewAfter
			m.surrender("the broker knows no consumer of the intake: it has forgotten it, or the queue has no leader")
		}
		return
	}
	l, v := m.asked[s], m.visits[s]
	delete(m.asked, s)
	switch {
	case v != nil:
		if !v.consumed {
			v.fits = ok && ready <= m.prefetchFor(v)
			m.consume(v)
		}
		return
	case !ok || !now.Known:
		m.next = append(m.next, s) // a while later
		return
	case m.survey[s] == nil:
	case m.survey[s] != l: // it was counted for a look before
		m.next = append(m.next, s)
	case ready == 0 && consumers == 0:
		m.readUntil(s, m.cfg.Wheel.Upcoming(s, now.Clock.Earliest).Number)
	default: // who has died may still have some
		v := &visit{slot: s, turn: m.cfg.Wheel.Upcoming(s, now.Clock.Latest), resting: true}
		m.ticketed[v.turn] = true // a mark tells that all was read
		m.visit(now, v)
	}
	m.countSome()
}

// readUntil notes that all turns of a slot before this one have been read.
func (m *Machine) readUntil(s Slot, number int64) {
	m.read[s] = max(m.read[s], number)
	m.seen(s)
}
