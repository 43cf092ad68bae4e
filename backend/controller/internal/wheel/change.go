package wheel

import (
	"container/heap"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A changeKey names a message at one of its due times: a change for another of them is not for
// this.
type changeKey struct {
	id  string
	due brokertime.Due
}

// A change is what is known of a message at a due time. What several say counts together: it is
// dropped if one says so, and else it is due at each time that one names, one after the other.
type change struct {
	key  changeKey
	drop bool
	next []brokertime.Due

	told   []*Message    // that say so, not acknowledged
	timers int           // how often it is to be looked at
	sought time.Duration // since when its message is looked for
	users  int           // messages in hand that it has decided about
	acked  time.Duration // when the last of those was acknowledged,
	from   []Slot        // and to which queues they were
}

const (
	// keptFor is how long after its message's acknowledgement, or after its due time, a change is
	// acknowledged. By then that acknowledgement is stored, or a channel was lost and all come
	// again; or its queue has no majority: see stored.
	keptFor = 15 * time.Second
	// storedAfter is how long after something was done a mark is written that comes back only if
	// its acknowledgement, which waits for as long as ackWithin, is stored. It is shorter than
	// keptFor, so that a mark does for the changes of some seconds.
	storedAfter = ackWithin + time.Second
	// rememberedFor is how long a change is remembered after that. A copy of its message may be on
	// its way from a controller that has died.
	rememberedFor = 2 * time.Minute
	// orphanEvery is how often the message of a change is looked for.
	orphanEvery = time.Second
)

func (m *Message) key() changeKey { return changeKey{m.ID, m.Due} }

// learn takes over what a change says that came, also while it is still on its way down the wheel.
func (m *Machine) learn(msg *Message) {
	c := m.changes[msg.key()]
	if c == nil {
		c = &change{key: msg.key()}
		m.changes[c.key] = c
	}
	if slices.Contains(c.told, msg) {
		return // it was taken again
	}
	c.drop = c.drop || msg.Next == 0
	if msg.Next != 0 {
		c.next = append(c.next, msg.Next)
	}
	c.told = append(c.told, msg)
}

// keep holds a change until its message has come.
func (m *Machine) keep(now Now, msg *Message) {
	if !msg.kept {
		msg.kept = true
		msg.visit.changes++
		m.kept += int64(msg.Size)
		m.settleAt(now.Mono, m.changes[msg.key()])
	}
}

// unkeep is false if a change is not kept.
func (m *Machine) unkeep(msg *Message) bool {
	if !msg.kept {
		return false
	}
	msg.kept = false
	msg.visit.changes--
	m.kept -= int64(msg.Size)
	return true
}

// passOn moves what a change has kept for as long as a consumer may hold a message: a queue may not
// answer for hours. It comes again.
func (m *Machine) passOn(now Now, c *change) {
	for _, msg := range slices.Clone(c.told) {
		if now.Known && msg.age(now) >= heldFor && m.unkeep(msg) {
			m.move(now, msg)
		}
	}
}

// unlearn forgets what a change says that is in another slot now. Who has used it has done so.
func (m *Machine) unlearn(msg *Message) {
	c := m.changes[msg.key()]
	if c == nil {
		return
	}
	c.told = slices.DeleteFunc(c.told, func(told *Message) bool { return told == msg })
	if len(c.told) == 0 && c.users == 0 && c.timers == 0 {
		delete(m.changes, c.key)
	}
}

func (m *Machine) dropped(now Now, msg *Message) bool {
	if msg.Kind != User || !msg.Ticket || msg.decided {
		return false
	}
	c := m.changes[msg.key()]
	if c == nil || !c.drop {
		return false
	}
	c.use(msg)
	m.done(now, msg)
	return true
}

// postponed moves the due time of a message on, if it was postponed.
func (m *Machine) postponed(msg *Message) bool {
	var to []brokertime.Due
	c := m.changes[msg.key()]
	if c != nil {
		c.use(msg)
		to = c.next
	}
	return msg.postpone(to)
}

func (c *change) use(msg *Message) {
	c.users++
	msg.used = append(msg.used, c)
}

// settle acknowledges a change when it is not needed any more, and later forgets it.
func (m *Machine) settle(now Now, c *change) {
	c.timers--
	if c.timers > 0 {
		return // it is looked at again
	}
	switch since := now.Mono - max(c.acked, 0); {
	case now.Known && now.Until(c.key.due) > 0:
		m.settleAt(now.Mono+now.Until(c.key.due), c)
	case c.users > 0 || !m.proven(now, c.key.due):
		m.passOn(now, c)
		m.settleAt(now.Mono+time.Second, c)
	case c.acked == 0 && !m.orphan(now, c):
		m.passOn(now, c)
		m.settleAt(now.Mono+orphanEvery, c)
	case c.acked == 0: // no message: it was delivered before, or never published
		c.acked = now.Mono
		m.settleAt(now.Mono+keptFor, c)
	case since < keptFor:
		m.settleAt(c.acked+keptFor, c)
	case len(c.told) > 0 && !m.stored(c):
		m.passOn(now, c)
		m.settleAt(now.Mono+time.Second, c)
	case len(c.told) > 0:
		c.told = slices.DeleteFunc(c.told, func(msg *Message) bool {
			kept := m.unkeep(msg)
			if kept {
				m.done(now, msg)
			}
			return kept
		})
		m.settleAt(now.Mono+rememberedFor, c)
	case since < rememberedFor:
		m.settleAt(c.acked+rememberedFor, c)
	default:
		delete(m.changes, c.key)
	}
}

// stored reports whether the acknowledgements of all messages are stored that a change has decided
// about. If the queue of one has no majority, its acknowledgement is lost with the channel, and the
// message comes again; the change would not. So a mark must have come back from that queue that was
// written later, or it was counted since.
func (m *Machine) stored(c *change) bool {
	is, need := true, c.acked+storedAfter
	for _, s := range c.from {
		switch v := m.visits[s]; {
		case s == Intake: // no mark is written there
			is = is && m.summons != nil && m.summons.came >= need
		case v == nil:
			is = is && m.survey[s] == nil
		case v.back.mono < need:
			v.markAfter = max(v.markAfter, need)
			is = false
		}
	}
	return is
}

// orphan reports whether no message comes any more for a change. It may have been postponed to this
// due time, by another change, and still be where it was due before: in hand, or in a slot that
// does not deliver. So marks must have come back from all slots.
func (m *Machine) orphan(now Now, c *change) bool {
	if c.sought == 0 {
		c.sought = now.Mono
	}
	is := m.tickets[c.key.id] == 0 && len(m.survey) == 0
	for _, v := range m.order {
		if need := max(c.sought, v.stored); v.slot != Intake && v.began <= need && v.back.mono < need {
			v.markAfter = max(v.markAfter, need)
			is = false
		}
	}
	return is
}

func (m *Machine) settleAt(at time.Duration, c *change) {
	m.count++
	c.timers++
	heap.Push(&m.waiting, waiting{at: at, count: m.count, change: c})
}
