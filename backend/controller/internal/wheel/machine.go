// Package wheel is a hierarchical timing wheel whose slots are queues, and the controller that turns
// it. docs/wheel.md tells its protocol and its invariants.
//
// A [Machine] is one candidate for the lead, from when its process has a connection until it loses any
// channel. It is pure: what happens comes in by its methods, with the time, and what is to be done goes
// out through its [Shell]. So a simulator can run it against a model of a broker.
package wheel

import (
	"container/heap"
	"slices"
	"time"
)

// A Shell does what a machine decides. No method may block, or call the machine. What is asked of a
// shell that has lost its connection is not done.
type Shell interface {
	// Consume consumes a queue, with so many messages unacknowledged at most. If it is consumed, only
	// the number changes: what is not acknowledged stays.
	Consume(s Slot, prefetch int)
	// Release ends that. What is not acknowledged goes back to the queue.
	Release(s Slot)
	// Ack acknowledges a message, or all of the queue's up to this one.
	Ack(s Slot, tag uint64, multiple bool)

	// Count asks how many messages are in a queue that nobody has, and how many consume it: Counted
	// says it.
	Count(s Slot)
	// Verify asks whether what is consumed is still this machine's: one Verified follows if it is.
	Verify()

	// Move publishes a message as it is now to the slot of a turn, or drops it unless it is
	// written within a time; Keep to the unroutable messages; Deliver to its destination. Stored says
	// what became of it. They do not change the message.
	Move(m *Message, to Turn, within time.Duration)
	Keep(m *Message)
	Deliver(m *Message)

	// Mark publishes a mark to a slot, Summon a summons to the intake. If that fails nobody is told.
	Mark(s Slot, id MarkID)
	Summon()

	// Surrender ends the tenure: see End. All queues are released at once.
	Surrender(why string)
}

// An Outcome is what became of a message that was published.
type Outcome int

// The outcomes.
const (
	Accepted Outcome = iota // it is stored
	Refused                 // it is stored nowhere, because of its destination
	Unknown                 // it may be stored or not
)

// Config is what a machine must know.
type Config struct {
	Wheel  Wheel
	Tenure string // names this machine, and no other ever
	Budget int64  // bytes in memory
}

// A Machine is one candidate for the lead. The zero value is not ready: use [New].
type Machine struct {
	cfg   Config
	shell Shell

	leading  bool
	over     bool
	summons  *Message      // that is held: whoever gets it next leads
	summoned time.Duration // when the last was written
	answered time.Duration // when the last came

	last   Now // the last tick
	slow   Now // the last slow tick
	told   Now // when the broker's clock was last looked at
	unsure int // this process stood still, and may have lost everything: questions that are not answered

	visits   map[Slot]*visit
	order    []*visit       // the same, so that a run can be repeated
	read     map[Slot]int64 // all turns of the slot before this number have been read in this tenure
	survey   map[Slot]*look // for what may have been left in slots between their turns
	next     []Slot         // of those, to be counted,
	asked    map[Slot]*look // and being counted, for this look
	ticketed map[Turn]bool  // marks are wanted: some message or change in hand is due in this turn
	marks    int64          // that were written
	heard    time.Duration  // when the latest of those was written that came back
	waiting  waitingHeap
	count    int64 // orders what waits for the same moment
	unproven []*Message
	recheck  bool // something has come that may prove those
	changes  map[changeKey]*change
	dests    map[string]*destination
	inHand   int            // messages that are not acknowledged
	tickets  map[string]int // of those, messages with a ticket, by their id
	bytes    int64
	kept     int64 // of them those of changes that are kept
	average  int64 // bytes of a message; 0: unknown
}

// New returns a machine. Its shell consumes nothing yet.
func New(cfg Config, shell Shell, now Now) *Machine {
	m := &Machine{
		cfg: cfg, shell: shell, last: now, visits: map[Slot]*visit{}, read: map[Slot]int64{}, survey: map[Slot]*look{},
		asked: map[Slot]*look{}, tickets: map[string]int{},
		ticketed: map[Turn]bool{}, changes: map[changeKey]*change{}, dests: map[string]*destination{},
	}
	m.visit(now, &visit{slot: Intake, turn: noTurn})
	m.summoned = now.Mono
	shell.Summon()
	return m
}

// Leads reports whether this machine turns the wheel.
func (m *Machine) Leads() bool { return m.leading && !m.over }

// Full reports whether so much is in memory that nothing more should be taken. Changes do not count:
// they are small, and stay until their messages are due.
func (m *Machine) Full() bool { return !m.over && m.taken() >= m.cfg.Budget && m.inHand > few }

// taken is how much is in memory beside changes.
func (m *Machine) taken() int64 { return m.bytes - m.kept }

// frozen reports whether nothing may be published: this process stood still, and another may lead by now.
func (m *Machine) frozen() bool { return m.unsure > 0 }

// Held is how much is in memory; nothing once the tenure has ended.
func (m *Machine) Held() (messages int, bytes int64) {
	if m.over {
		return 0, 0
	}
	return m.inHand, m.bytes
}

// End ends the tenure. The machine asks for nothing more, except that it acknowledges what is stored yet.
func (m *Machine) End() { m.over = true }

const (
	// near is the remaining delay that is always waited for in memory.
	near = 3 * time.Second
	// longestHeld is the longest remaining delay that is waited for in memory, heldFor the longest time
	// that a message stays unacknowledged for it. The broker closes the channel of a consumer that holds
	// a message for 30 minutes.
	longestHeld = 150 * time.Second
	heldFor     = 5 * time.Minute
	// unclear is how long a message waits until the clock is looked at again, and precise how well it
	// must be known to wait for longer.
	unclear = 200 * time.Millisecond
	precise = 20 * time.Millisecond

	// slowTick is how often the machine looks at what changes slowly, and idleTick while nothing is in
	// hand.
	slowTick, idleTick = 100 * time.Millisecond, time.Second
	// stoodStill is less than a broker waits for a heartbeat. A client's heartbeat is 10 s, and the
	// broker waits for two.
	stoodStill = 5 * time.Second
	// summonEvery is how often a leader makes sure that the intake delivers; missedAfter how long it
	// waits. A candidate cannot know whether anybody leads: its summons may be lost, or was purged, or
	// the intake was deleted and declared again. So it writes another, and looks whether it is consumed.
	summonEvery      = time.Minute
	missedAfter      = 20 * time.Second
	summonEveryOther = 15 * time.Second
	// stepped is by how much the broker's clock may disagree with what was known of it, and setBack how
	// much later it may be than was known.
	stepped = 10 * time.Second
	setBack = 200 * time.Millisecond

	// few messages are in hand whatever their size.
	few = 4

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
	if s == Intake && !m.leading {
		m.lead(now)
	}
	m.take(now, msg)
}

// take does with a message that came what its kind asks for.
func (m *Machine) take(now Now, msg *Message) {
	switch msg.Kind {
	case Summons:
		m.answered = now.Mono
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
	if msg.Due == (Due{}) {
		msg.Due = now.reckon(left)
	}
	due := now.shown(msg.Due)
	switch v := msg.visit; {
	case v.resting && !due.Before(m.cfg.Wheel.begin(v.turn)) && len(msg.used) == 0: // else it would go back as it was
		m.head(msg)
	case m.holds(now, msg, left):
		if msg.Ticket || msg.Kind == Change {
			m.expect(due)
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
	case left <= near, v.slot.Level == 0, msg.Kind == Change:
		return true
	}
	return v.fits && m.taken() < m.cfg.Budget/2
}

// move publishes a message to the slot of its due time.
func (m *Machine) move(now Now, msg *Message) {
	if !m.thawed(now, msg) {
		return
	}
	to, within := m.cfg.Wheel.PlaceOf(now, msg.Due)
	if v := msg.visit; m.cfg.Wheel.Slot(to) == v.slot && to != v.turn {
		v.ending, v.aside = true, append(v.aside, msg) // it would come again at once
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
			m.unproven = append(m.unproven, msg)
			return
		}
		if m.postponed(now, msg) {
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
		m.answeredBy(now, d, o)
	}
}

// done acknowledges a message.
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

// moved notes that a message is in another slot now. If that may have been closed meanwhile, it is looked
// at. And what was read of that slot did not have this change.
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

// thawed is false, and the message waits, while nothing may be published.
func (m *Machine) thawed(now Now, msg *Message) bool {
	if m.frozen() {
		m.wait(now, msg, unclear)
	}
	return !m.frozen()
}

// Verified answers Verify: all that was consumed then still was. What is asked later is for what came later.
func (m *Machine) Verified(now Now) {
	if m.over {
		return
	}
	m.at(now)
	m.unsure--
	m.recheck = true
}

// Tick does what is due, and returns when it must be called next. It may be called at any time.
func (m *Machine) Tick(now Now) (next time.Duration) {
	if m.over {
		return now.Mono + time.Hour
	}
	m.at(now)
	if now.Mono >= m.slow.Mono+m.pace() {
		m.tend(now)
		m.slow = now
	}
	if m.recheck && !m.frozen() && now.Known {
		m.recheck = false
		m.tryAgain(now)
	}
	for len(m.waiting) > 0 && m.waiting[0].at <= now.Mono && !m.over {
		w := heap.Pop(&m.waiting).(waiting)
		if w.change != nil {
			m.settle(now, w.change)
		} else {
			m.again(now, w.message)
		}
	}
	next = m.slow.Mono + m.pace()
	if len(m.waiting) > 0 {
		next = min(next, m.waiting[0].at)
	}
	for _, v := range m.order {
		m.flush(v, now.Mono)
	}
	return max(next, now.Mono)
}

// pace is how often the machine looks at what changes slowly.
func (m *Machine) pace() time.Duration {
	if len(m.survey)+len(m.dests) > 0 || m.inHand > 1 { // one is the summons
		return slowTick
	}
	return idleTick
}

// at notices that this process stood still.
func (m *Machine) at(now Now) {
	if passed := max(now.Mono-m.last.Mono, now.Wall.Sub(m.last.Wall)); passed > stoodStill {
		m.unsure++
		m.shell.Verify()
	}
	m.last = now
}

// again goes on with a message that has waited.
func (m *Machine) again(now Now, msg *Message) {
	if msg.Kind == User && msg.decided {
		m.deliver(now, msg)
		return
	}
	m.take(now, msg)
}

// wait goes on with a message after a while.
func (m *Machine) wait(now Now, msg *Message, d time.Duration) {
	m.count++
	heap.Push(&m.waiting, waiting{at: now.Mono + d, count: m.count, message: msg})
}

// A waiting message or change is looked at again at a time.
type waiting struct {
	at      time.Duration
	count   int64
	message *Message
	change  *change
}

// waitingHeap implements heap.Interface: the first due is on top.
type waitingHeap []waiting

func (h waitingHeap) Len() int { return len(h) }
func (h waitingHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].count < h[j].count
}
func (h waitingHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *waitingHeap) Push(w any)   { *h = append(*h, w.(waiting)) }

func (h *waitingHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = waiting{} // lets go of the message
	*h = (*h)[:last]
	return w
}

// tend looks at what changes slowly.
func (m *Machine) tend(now Now) {
	m.summon(now)
	if m.frozen() && m.Full() { // nothing is read: no answer could come
		m.surrender("this process stood still, and its memory is full")
	}
	if !m.leading || m.over || !now.Known {
		return
	}
	if !m.slow.Known {
		m.recheck = true
	}
	if m.compare(now); m.over {
		return
	}
	m.turn(now)
	m.countSome()
	for _, v := range m.order {
		m.mark(now, v)
	}
	m.makeRoom(now)
	m.renew(now)
	m.stuck(now)
}

// compare notices that the broker's clock was set, also while it was unknown. Then what is in hand may
// not be due for long, and slots may have lost their turn: another tenure takes all anew. After a short
// step back, what marks have proved counts no more, since changes are accepted for longer than was known.
func (m *Machine) compare(now Now) {
	was := m.told
	m.told = now
	if !was.Known {
		return
	}
	if was.unsettled() && !now.unsettled() { // until now others may have written by the time of before
		m.surveyAll()
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

// lead begins to turn the wheel: what comes from the intake comes only to one.
func (m *Machine) lead(now Now) {
	m.leading, m.answered = true, now.Mono
	m.surveyAll()
}

// summon writes a summons now and then. The leader holds one unacknowledged: if its connection is lost
// the next candidate gets it, and so learns that it leads.
func (m *Machine) summon(now Now) {
	every := summonEveryOther
	if m.leading {
		every = summonEvery
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

func (m *Machine) surrender(why string) {
	if !m.over {
		m.over = true
		m.shell.Surrender(why)
	}
}

// Sizes are how much a machine keeps. At rest there are visits, and nothing else.
type Sizes struct{ Visits, Marks, Surveys, Waiting, Unproven, Changes, Tickets, Destinations int }

// Sizes tells how much is kept.
func (m *Machine) Sizes() Sizes {
	return Sizes{
		Visits: len(m.visits), Marks: len(m.ticketed), Surveys: len(m.survey), Waiting: len(m.waiting),
		Unproven: len(m.unproven), Changes: len(m.changes), Tickets: len(m.tickets), Destinations: len(m.dests),
	}
}
