package wheel

import (
	"time"
)

const (
	// summonEvery is how often a leader makes sure that the intake delivers; missedAfter how long
	// it waits. A candidate cannot know whether anybody leads: its summons may be lost, or was
	// purged, or the intake was deleted and declared again. So it writes another, and looks whether
	// it is consumed.
	summonEvery      = time.Minute
	missedAfter      = 20 * time.Second
	summonEveryOther = 15 * time.Second
	// storedWithin is how long the first of a tenure is waited for, until another is written.
	storedWithin = 5 * time.Second
	// stepped is by how much the broker's clock may disagree with what was known of it, and setBack
	// how much later it may be than was known.
	stepped = 10 * time.Second
	setBack = 200 * time.Millisecond
)

// lead begins to turn the wheel: what comes from the intake comes only to one. What earlier tenures
// have left in slots is looked for when a summons of this one is stored: see surveyWhenDue.
func (m *Machine) lead(now Now) {
	m.leading, m.led, m.summoned = true, now.Mono, now.Mono
	m.shell.Summon()
}

// summon writes a summons now and then. The leader holds one unacknowledged: if its connection is
// lost the next candidate gets it, and so learns that it leads.
func (m *Machine) summon(now Now) {
	every := summonEveryOther
	if m.leading {
		every = summonEvery
		if m.surveyAt == 0 {
			every = storedWithin
		}
		if m.Full() {
			m.answered = max(m.answered, now.Mono) // nothing is read
		}
		if m.summoned > m.answered && now.Mono-m.summoned > missedAfter {
			m.surrender("the intake does not deliver")
			return
		}
	}
	if now.Mono-m.summoned >= every {
		m.summoned = now.Mono
		m.shell.Summon()
		if !m.leading {
			m.shell.Count(Intake)
		}
	}
}

// compare notices that the broker's clock was set, also while it was unknown. Then what is in hand
// may not be due for long, and slots may have lost their turn: another tenure takes all anew. After
// a short step back, what marks have proved counts no more, since changes are accepted for longer
// than was known.
func (m *Machine) compare(now Now) {
	was := m.told
	m.told = now
	if !was.Known {
		return
	}
	passed := now.Mono - was.Mono
	if off := now.Clock.Latest.Sub(was.Clock.Latest) - passed; off.Abs() > stepped {
		m.surrender("the broker's clock was set")
		return
	}
	if off := now.Clock.Earliest.Sub(was.Clock.Earliest) - passed; off < -setBack {
		for _, v := range m.order {
			v.unread()
		}
	}
}

func (m *Machine) surrender(why string) {
	if !m.over {
		m.over = true
		m.shell.Surrender(why)
	}
}
