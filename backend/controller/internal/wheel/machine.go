// Package wheel is a hierarchical timing wheel whose slots are queues, and the controller that
// turns it. docs/wheel.md tells its protocol and its invariants.
//
// A [Machine] is one candidate for the lead, from when its process has a connection until it loses
// any channel. It is pure: what happens comes in by its methods, with the time, and what is to be
// done goes out through its [Shell]. So a simulator can run it against a model of a broker.
package wheel

import (
	"time"
)

// A Shell does what a machine decides. No method may block, or call the machine. What is asked of a
// shell that has lost its connection is not done.
type Shell interface {
	// Consume consumes a queue, with so many messages unacknowledged at most. If it is consumed,
	// only the number changes: what is not acknowledged stays.
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

	// Move publishes a message as it is now to the slot of a turn, or drops it unless it is written
	// within a time; Keep to the unroutable messages; Deliver to its destination. Stored says what
	// became of it. They do not change the message.
	Move(m *Message, to Turn, within time.Duration)
	Keep(m *Message)
	Deliver(m *Message)

	// Mark publishes a mark to a slot. If that fails nobody is told.
	Mark(s Slot, id MarkID)
	// Summon publishes a summons to the intake. Summoned says when it is stored; else nobody is
	// told.
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
	// Fewer divides how many messages of a slot are in hand at a time, for a simulator whose slots
	// hold hundreds. 0 is 1.
	Fewer int
}

// A Machine is one candidate for the lead. The zero value is not ready: use [New].
type Machine struct {
	cfg   Config
	shell Shell

	leading  bool
	over     bool
	summons  *Message      // that is held: whoever gets it next leads
	summoned time.Duration // when the last was written
	answered time.Duration // when something last came from the intake
	led      time.Duration // since when it leads

	last   Now // the last tick
	slow   Now // the last slow tick
	told   Now // when the broker's clock was last looked at
	unsure int // this process stood still, and may have lost everything: questions that are not answered

	visits   map[Slot]*visit
	order    []*visit       // the same, so that a run can be repeated
	read     map[Slot]int64 // all turns of the slot before this number have been read in this tenure
	surveyAt time.Duration  // when all slots are looked at for the first time; 0: nothing of this tenure is stored yet
	surveyed bool           // that has begun
	lookedIn bool           // so has the second time
	survey   map[Slot]*look // for what may have been left in slots between their turns
	next     []Slot         // of those, to be counted,
	asked    map[Slot]*look // and being counted, for this look
	turned   [2]Turn        // the turns of seconds, at the earliest and the latest, for which visits were opened
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
	cfg.Fewer = max(1, cfg.Fewer)
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

// few messages are in hand whatever their size.
const few = 4

// Full reports whether so much is in memory that nothing more should be taken. Changes do not
// count: they are small, and stay until their messages are due.
func (m *Machine) Full() bool { return !m.over && m.taken() >= m.cfg.Budget && m.inHand > few }

// taken is how much is in memory beside changes.
func (m *Machine) taken() int64 { return m.bytes - m.kept }

// Held is how much is in memory; nothing once the tenure has ended.
func (m *Machine) Held() (messages int, bytes int64) {
	if m.over {
		return 0, 0
	}
	return m.inHand, m.bytes
}

// End ends the tenure. The machine asks for nothing more, except that it acknowledges what is
// stored yet.
func (m *Machine) End() { m.over = true }

// Sizes are how much a machine keeps. At rest there are visits, and nothing else.
type Sizes struct{ Visits, Marks, Surveys, Waiting, Unproven, Changes, Tickets, Destinations int }

// Sizes tells how much is kept.
func (m *Machine) Sizes() Sizes {
	surveys := len(m.survey)
	if m.leading && !m.surveyed {
		surveys++
	}
	return Sizes{
		Visits: len(m.visits), Marks: len(m.ticketed), Surveys: surveys, Waiting: len(m.waiting),
		Unproven: len(m.unproven), Changes: len(m.changes), Tickets: len(m.tickets), Destinations: len(m.dests),
	}
}
