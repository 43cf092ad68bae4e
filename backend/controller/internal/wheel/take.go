package wheel

import (
	"slices"
	"time"
)

const (
	// near is the remaining delay that is always waited for in memory.
	near = 3 * time.Second
	// longestHeld is the longest remaining delay that is waited for in memory, heldFor the longest
	// time that a message stays unacknowledged for it. The broker closes the channel of a consumer
	// that holds a message for 30 minutes.
	longestHeld = 150 * time.Second
	heldFor     = 5 * time.Minute
	// unclear is how long a message waits until the clock is looked at again, and precise how well
	// it must be known to wait for longer.
	unclear = 200 * time.Millisecond
	precise = 20 * time.Millisecond

	firstPause   = 100 * time.Millisecond // after a message could not be published
	longestPause = 5 * time.Second
)

// Delivered says that a message has come out of a queue.
func (m *Machine) Delivered(now Now, s Slot, tag uint64, msg *Message) {
	v := m.visits[s]
	if m.over || v == nil {
		return
	}
	m.at(now)
	msg.visit, msg.tag, msg.came = v, tag, now.Mono
	m.hold(msg)
	v.touched = now.Mono
	m.weigh(v, msg)
	if s == Intake {
		if !m.leading {
			m.lead(now)
		}
		m.answered = now.Mono
	}
	m.take(now, msg)
}

// take does with a message that came what its kind asks for.
func (m *Machine) take(now Now, msg *Message) {
	switch msg.Kind {
	case Summons:
		if msg.visit.slot != Intake { // somebody has put it there
			m.done(now, msg)
			return
		}
		if m.summons != nil {
			m.done(now, m.summons)
		}
		m.summons = msg
	case Mark:
		m.marked(msg)
		m.done(now, msg)
	case Foreign:
		if m.thawed(now, msg) {
			m.shell.Keep(msg)
		}
	case Change:
		m.learn(msg)
		m.decide(now, msg)
	case User:
		m.decide(now, msg)
	}
}

// decide does the next thing with a message or a change.
func (m *Machine) decide(now Now, msg *Message) {
	if m.dropped(now, msg) {
		return
	}
	left, ok := msg.left(now)
	switch {
	case !ok:
		m.wait(now, msg, unclear)
		return
	case left <= 0:
		m.due(now, msg)
		return
	case !now.Known:
		m.wait(now, msg, min(left, unclear))
		return
	}
	if msg.Due == 0 {
		msg.Due, msg.Own = now.reckon(left), msg.Own && left <= OwnFor
	}
	due := msg.Due.Time()
	switch v := msg.visit; {
	case v.resting && !due.Before(m.cfg.Wheel.begin(v.turn)) && len(msg.used) == 0: // else it would go back as it was
		// The visit ends between turns: a message of the next is behind all that was left.
		v.ending, v.aside = true, append(v.aside, msg)
		m.readUntil(v.slot, v.turn.Number)
	case m.holds(now, msg, left):
		if msg.Ticket || msg.Kind == Change {
			for level := range m.cfg.Wheel { // marks are written where a change of it may be
				m.ticketed[m.cfg.Wheel.at(level, due)] = true
			}
		}
		if msg.Kind == Change {
			m.keep(now, msg)
			return
		}
		if wide := now.Clock.Latest.Sub(now.Clock.Earliest); wide > precise && left > unclear {
			left /= 2
		}
		m.wait(now, msg, left)
	default:
		m.move(now, msg)
	}
}

// holds reports whether a message waits in memory until it is due.
func (m *Machine) holds(now Now, msg *Message, left time.Duration) bool {
	v := msg.visit
	switch {
	case msg.age(now)+left > heldFor, left > longestHeld:
		return false
	case left <= near:
		return true
	case v.slot.Level == 0, msg.Kind == Change:
		return !m.forLater(v, msg.Due.Time())
	}
	return v.fits && m.taken() < m.share(v)
}

// forLater reports whether what is due then is for a later turn of a slot. In memory it would keep
// the slot open until that turn, and so would all that comes meanwhile.
func (m *Machine) forLater(v *visit, due time.Time) bool {
	w, level := m.cfg.Wheel, v.slot.Level
	return v.slot != Intake && w.at(level, due).Number >= v.turn.Number+int64(w[level].Slots)
}

// move publishes a message to the slot of its due time.
func (m *Machine) move(now Now, msg *Message) {
	if !m.thawed(now, msg) {
		return
	}
	to, within := m.cfg.Wheel.PlaceOf(now, msg.Due)
	// It would come again at once. But if it was postponed, it would go back as it was.
	if v := msg.visit; m.cfg.Wheel.Slot(to) == v.slot && to != v.turn && len(msg.used) == 0 {
		v.ending, v.aside = true, append(v.aside, msg)
		return
	}
	msg.to, msg.moving = to, true
	m.shell.Move(msg, to, within)
}

// due does what is to be done with a message whose time has come.
func (m *Machine) due(now Now, msg *Message) {
	if msg.Kind == Change {
		m.keep(now, msg)
		return
	}
	if msg.Ticket && !msg.decided {
		if !m.proven(now, msg.Due) {
			if msg.visit.resting && now.Known && m.surveys() { // nothing is proved before this visit has ended
				m.move(now, msg)
				return
			}
			m.unproven = append(m.unproven, msg)
			return
		}
		if m.postponed(msg) {
			m.decide(now, msg)
			return
		}
		msg.decided = true
	}
	m.deliver(now, msg)
}

// Stored says what became of a message that was to be moved, kept or delivered.
func (m *Machine) Stored(now Now, msg *Message, o Outcome) {
	if m.over {
		if o == Accepted {
			m.done(now, msg)
		}
		return
	}
	m.at(now)
	var d *destination // that it was being delivered to
	if msg.flying {
		d = m.dests[msg.To]
	}
	moving := msg.moving
	msg.flying, msg.moving = false, false
	switch {
	case o == Accepted:
		if moving {
			m.moved(now, msg)
		}
		m.done(now, msg)
	case o == Refused && d != nil:
		d.fail(now)
		m.later(now, msg, d)
	default:
		msg.tries++
		m.wait(now, msg, min(firstPause<<min(msg.tries, 6), longestPause))
	}
	if d != nil {
		m.answeredBy(now, d, msg, o)
	}
}

func (m *Machine) done(now Now, msg *Message) {
	v := msg.visit
	v.acks.Done(msg.tag, now.Mono)
	m.letGo(msg)
	v.touched = now.Mono
	for _, c := range msg.used {
		c.users--
		c.acked = now.Mono
		v.used = now.Mono
		if !slices.Contains(c.from, v.slot) {
			c.from = append(c.from, v.slot)
		}
	}
	msg.used = nil
}

// moved notes that a message is in another slot now. If that may have been closed meanwhile, it is
// looked at. And what was read of that slot did not have this change.
func (m *Machine) moved(now Now, msg *Message) {
	if msg.Kind == Change {
		m.unlearn(msg)
	}
	s := m.cfg.Wheel.Slot(msg.to)
	switch v := m.visits[s]; {
	case v == nil:
		if !now.Known || !now.Clock.Latest.Before(m.cfg.Wheel.opens(msg.to)) {
			m.look(s, false)
		}
	case msg.Kind == Change:
		v.unread()
	case msg.Ticket:
		v.stored = now.Mono
	}
}

func (m *Machine) again(now Now, msg *Message) {
	if msg.Kind == User && msg.decided {
		m.deliver(now, msg)
		return
	}
	m.take(now, msg)
}

// hold and letGo count what is in hand.
func (m *Machine) hold(msg *Message) {
	msg.visit.inHand++
	m.inHand++
	m.bytes += int64(msg.Size)
	if msg.counted = msg.Kind == User && msg.Ticket; msg.counted {
		m.tickets[msg.ID]++
	}
}

func (m *Machine) letGo(msg *Message) {
	msg.visit.inHand--
	m.inHand--
	m.bytes -= int64(msg.Size)
	if !msg.counted {
		return
	}
	if m.tickets[msg.ID]--; m.tickets[msg.ID] == 0 {
		delete(m.tickets, msg.ID)
	}
}
