package wheel

import (
	"cmp"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lib/acks"
)

// A visit is a queue that is consumed: in the turn of its slot, or between its turns, for what
// earlier tenures have left in it.
type visit struct {
	slot     Slot
	turn     Turn // whose messages are expected; between turns, the next
	resting  bool // between turns
	ending   bool // it is released once nothing but what is aside is in hand
	consumed bool // otherwise it is being counted before that
	fits     bool // memory can hold all of it
	prefetch int

	acks    acks.Acks
	looked  time.Duration // when it was last looked for what waits alone
	inHand  int           // messages that are not acknowledged
	changes int           // of those, changes that are kept
	aside   []*Message    // and those for a later turn
	touched time.Duration // when a message last came or was done with

	sent      []mark // that have not come back, the first sent first
	back      mark   // the last that came back
	passed    int    // the last consumer to which one came
	began     time.Duration
	stored    time.Duration // when a message with a ticket was last moved here
	used      time.Duration // when one was last acknowledged that a change has decided about
	markAfter time.Duration // a mark is wanted that is written then, or later
}

// A mark was written when the broker's clock showed at least a time.
type mark struct {
	id   MarkID
	at   time.Time
	mono time.Duration
}

var noTurn = Turn{Level: -1}

const (
	// mostOfTurn is how many messages of a slot are in hand at a time in its turn, by level; where
	// they are large, fewer.
	mostOfSeconds, mostOfMinutes, mostOfOthers = 48000, 8192, 1024
	// mostAtRest is how many of a slot that is looked at between its turns, and of the intake.
	mostAtRest = 32
	// mostUnknown is how many while the size of messages is unknown.
	mostUnknown = 16
	// counting is how many slots are looked at, at a time.
	counting = 8

	// quietFor is how long a visit must be idle whose turn is over.
	quietFor = 2 * time.Second
	// renewAfter is how long a visit may be idle at all. If a queue is deleted and declared again
	// within milliseconds, RabbitMQ moves the consumer to the new one without telling it, and drops
	// what that delivers.
	renewAfter = 2 * time.Minute
	// markAgain is how long a mark is waited for while nothing else comes.
	markAgain = 2 * time.Second
	// markEvery is how long before a turn of seconds its first mark is written, and how soon each
	// of the next follows, until one is enough for the end of the turn. See MarkedBefore.
	markEvery = 1500 * time.Millisecond
)

// prefetchFor is how many messages of a visit may be in hand.
func (m *Machine) prefetchFor(v *visit) int {
	most := mostOfOthers
	switch {
	case v.resting || v.slot == Intake:
		return mostAtRest
	case m.average == 0:
		return mostUnknown
	case v.slot.Level == 0:
		most = mostOfSeconds
	case v.slot.Level == 1:
		most = mostOfMinutes
	}
	most = max(most/m.cfg.Fewer, mostUnknown)
	left := m.cfg.Budget - m.taken() + int64(v.inHand-v.changes)*m.average // without what it has itself
	return int(min(int64(most), max(min(m.share(v), left)/m.average, mostUnknown)))
}

// share is how many bytes of memory a visit may have. What is due in seconds comes before the rest.
func (m *Machine) share(v *visit) int64 {
	if v.slot.Level == 0 {
		return m.cfg.Budget / 8 * 7
	}
	return m.cfg.Budget / 2
}

// weigh keeps the average size of about the last 64 messages; one that is larger counts at once.
func (m *Machine) weigh(v *visit, msg *Message) {
	if size := int64(msg.Size); msg.Kind == User {
		if m.average == 0 {
			m.average = size
		}
		m.average += (size - m.average) / 64
		m.average = max(m.average, size/8)
	}
	if v.consumed && v.inHand > v.prefetch/2 {
		m.widen(v, m.prefetchFor(v)/8)
	}
}

// widen takes more messages of a queue, so many at least, where memory permits: what is known of
// their size may have changed. Held changes must not keep messages away, nor the mark that tells
// that they are all: if a visit has room for nothing else, it gets some whatever is in memory. Each
// time is a question to the broker.
func (m *Machine) widen(v *visit, least int) {
	if v.slot == Intake {
		return // another candidate would be given it
	}
	room := m.taken() < m.share(v) || v.changes >= v.prefetch
	if most := m.prefetchFor(v) + v.changes; most >= v.prefetch+max(1, least) && room {
		v.prefetch = min(most, max(4*v.prefetch, v.prefetch+v.changes))
		m.shell.Consume(v.slot, v.prefetch)
	}
}

// turn opens and closes visits.
func (m *Machine) turn(now Now) {
	w := m.cfg.Wheel
	if at := [2]Turn{w.at(0, now.Clock.Earliest), w.at(0, now.Clock.Latest)}; at != m.turned {
		m.turned = at // every slot opens with a turn of seconds
		m.open(now)
	}
	var over []*visit
	for _, v := range m.order {
		if m.ends(now, v) {
			over = append(over, v)
		}
	}
	for _, v := range over {
		m.release(now, v)
	}
}

// open opens visits whose turn has come.
func (m *Machine) open(now Now) {
	w := m.cfg.Wheel
	for _, t := range w.Open(now.Clock.Earliest, now.Clock.Latest) {
		s := w.Slot(t)
		switch v := m.visits[s]; {
		case v == nil:
			m.visit(now, &visit{slot: s, turn: t})
		case v.turn != t || v.resting:
			m.resume(now, v, t)
		}
		if m.survey[s] != nil {
			m.seen(s)
		}
	}
	for t := range m.ticketed {
		if w.closes(t).Before(now.Clock.Earliest) && m.visits[w.Slot(t)] == nil {
			delete(m.ticketed, t)
		}
	}
}

// ends reports whether a visit is to end: it is not its turn, and nothing is in hand but what goes
// back.
func (m *Machine) ends(now Now, v *visit) bool {
	switch {
	case v.slot == Intake, !v.consumed, !v.resting && now.Clock.Earliest.Before(m.cfg.Wheel.closes(v.turn)):
		return false
	case m.deaf(v):
		return v.inHand == len(v.aside)+v.changes
	}
	quiet := v.ending || !v.resting && now.Mono-v.touched >= quietFor
	return quiet && v.inHand == len(v.aside)
}

// visit begins to consume a queue, or first asks how many messages are in it.
func (m *Machine) visit(now Now, v *visit) {
	v.acks, v.touched, v.began, v.passed = acks.New(1), now.Mono, cmp.Or(v.began, now.Mono), 1
	m.visits[v.slot] = v
	m.order = append(m.order, v)
	slices.SortFunc(m.order, func(a, b *visit) int {
		return cmp.Or(cmp.Compare(a.slot.Level, b.slot.Level), cmp.Compare(a.slot.Index, b.slot.Index))
	})
	if v.slot.Level > 0 && !v.resting {
		m.shell.Count(v.slot)
		return
	}
	m.consume(v)
}

func (m *Machine) consume(v *visit) {
	v.consumed, v.prefetch = true, m.prefetchFor(v)
	m.shell.Consume(v.slot, v.prefetch)
}

// resume makes a visit one for another turn: what it was for is still in hand.
func (m *Machine) resume(now Now, v *visit, t Turn) {
	v.turn, v.resting, v.ending = t, false, false
	v.unread() // its marks were for the other turn
	aside := v.aside
	v.aside = nil
	for _, msg := range aside {
		m.take(now, msg)
	}
	if v.consumed {
		m.consume(v)
	}
}

// unread forgets what the marks of a visit have proved.
func (v *visit) unread() { v.sent, v.back = nil, mark{} }

// deaf reports whether nothing comes from a queue, not even a mark, while much later ones have come
// from others: somebody may have deleted it.
func (m *Machine) deaf(v *visit) bool { return len(v.sent) > 0 && m.heard-v.sent[0].mono > missedAfter }

// release ends a visit. Something may have come to its queue at the last moment.
func (m *Machine) release(now Now, v *visit) {
	m.flush(v, now.Mono+2*ackWithin) // also what is done only just now
	m.shell.Release(v.slot)
	delete(m.visits, v.slot)
	m.order = slices.DeleteFunc(m.order, func(other *visit) bool { return other == v })
	if v.changes > 0 { // it is deaf
		for _, c := range m.changes {
			for _, msg := range c.told {
				if msg.visit == v && m.unkeep(msg) {
					v.aside = append(v.aside, msg)
				}
			}
		}
	}
	for _, msg := range v.aside { // they go back
		m.letGo(msg)
		if msg.Kind == Change {
			m.unlearn(msg)
		}
	}
	if !v.resting || m.survey[v.slot] != nil || v.back.mono < v.used+storedAfter && v.used > 0 {
		m.look(v.slot, false)
	}
}

// renew consumes a queue anew, now and then, that delivers nothing, and a deaf one with nothing but
// changes in hand.
func (m *Machine) renew(now Now) {
	for _, v := range m.order {
		idle := v.inHand == 0 && now.Mono-v.touched >= renewAfter
		deaf := v.inHand == v.changes && m.deaf(v)
		if v.consumed && v.slot != Intake && (idle || deaf) {
			m.release(now, v)
			m.visit(now, &visit{slot: v.slot, turn: v.turn, resting: v.resting, began: v.began, stored: v.stored, used: v.used})
			return // one at a time
		}
	}
}

const (
	// ackWithin is how long what is done waits for what came before it: longer than a slot of
	// seconds lasts, where prefixes suffice. A few are not worth the risk that they come again:
	// they wait for ackSoon. So do all that keep away what is behind them. In the intake and at
	// rest nothing waits: few messages are in hand there, and the first of them often stays, as the
	// summons does, or a change.
	ackWithin = 5 * time.Second
	ackSoon   = 250 * time.Millisecond
	ackFew    = 256
)

// Flush acknowledges all that is done. It is called when the tenure ends.
func (m *Machine) Flush(now Now) {
	for _, v := range m.order {
		m.flush(v, now.Mono+2*ackWithin)
	}
}

// flush acknowledges what is done of a visit, by a time.
func (m *Machine) flush(v *visit, now time.Duration) {
	if tag := v.acks.UpTo(); tag != 0 {
		m.shell.Ack(v.slot, tag, true)
	}
	within, atOnce := ackWithin, v.resting || v.slot == Intake
	if v.acks.Waiting() == 0 || now-v.looked < ackSoon && !atOnce {
		return
	}
	v.looked = now
	switch full := v.inHand+v.acks.Waiting() >= v.prefetch; {
	case atOnce:
		within = 0
	case full || v.acks.Waiting() <= ackFew/m.cfg.Fewer:
		within = ackSoon
	}
	for _, tag := range v.acks.Overdue(now, within) {
		m.shell.Ack(v.slot, tag, false)
	}
}
