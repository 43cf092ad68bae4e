package faults

import (
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/lab/account"
)

type course = account.Course[int]

// inFlight is how late a message may be that lies in a queue of a broker that is not behind.
const inFlight = 3 * time.Second

// A span says which messages an operator has deleted, or may have: asked for before a time, and due
// between two. Without dueTo they may be due at any later time.
type span struct{ asked, dueFrom, dueTo time.Duration }

// deletedWaiting notes that an operator deleted, from one time to another, the queues where
// messages wait.
func (r *Run) deletedWaiting(from, to time.Time) {
	r.deleted = append(r.deleted, span{asked: r.Account.At(to), dueFrom: r.Account.At(from) - inFlight})
}

// deletedArrived notes that an operator deleted, from one time to another, the queue where messages
// arrive: what had just come is gone with it.
func (r *Run) deletedArrived(from, to time.Time) {
	r.deleted = append(r.deleted, span{asked: r.Account.At(to), dueFrom: r.Account.At(from) - inFlight, dueTo: r.Account.At(to)})
}

// fixed notes that nothing is broken from now on. The last call counts.
func (r *Run) fixed() { r.repaired = r.Account.Now() }

// Totals say what became of the messages of a run.
type Totals struct {
	Sent, Confirmed  int
	Refused, Unknown int `json:",omitempty"`

	Delivered int // of those confirmed
	Surprised int `json:",omitempty"` // delivered, and Publish had answered that the outcome is unknown
	Untrue    int `json:",omitempty"` // delivered, although Publish had answered that they are not stored
	Cancelled int `json:",omitempty"`
	Postponed int `json:",omitempty"` // made due later
	Revived   int `json:",omitempty"` // delivered, although Cancel had answered that they are not
	Twice     int `json:",omitempty"` // extra copies, without those that the broker marked as delivered to the consumer before
	Strangers int `json:",omitempty"` // deliveries that are no message of ours
	Kept      int `json:",omitempty"` // confirmed and not delivered, but in the queue for unroutable messages
	Deleted   int `json:",omitempty"` // confirmed and gone with what an operator deleted
	Early     int `json:",omitempty"`
	Missing   int `json:",omitempty"` // confirmed

	EarliestBy time.Duration `json:",omitempty"` // how much the earliest was early
	LatestBy   time.Duration `json:",omitempty"` // how long after its time the last arrived
	AfterEnd   time.Duration `json:",omitempty"` // the same, but from the end of the fault on for those that were due before
	Outage     time.Duration `json:",omitempty"` // longest time between two confirms while publishing
	Slowest    time.Duration `json:",omitempty"` // the longest Publish

	early, missing []course
}

// totals adds up. Messages that were deleted, or may have been, are not missing, and not revived if
// they come after all.
func totals(messages []course, deleted []span, repaired time.Duration) Totals {
	isDeleted := func(m course) bool {
		return slices.ContainsFunc(deleted, func(s span) bool {
			return m.Asked < s.asked && m.Due() > s.dueFrom && (s.dueTo == 0 || m.Due() < s.dueTo)
		})
	}
	v := account.Judge(messages)
	missing, revived := slices.DeleteFunc(slices.Clone(v.Missing), isDeleted), slices.DeleteFunc(v.Revived, isDeleted)
	t := Totals{
		Sent: v.Sent, Confirmed: v.Confirmed, Refused: v.Refused, Unknown: v.Unknown,
		Delivered: v.Delivered, Surprised: v.Surprised, Untrue: len(v.Untrue), Cancelled: v.Cancelled,
		Postponed: v.Postponed, Revived: len(revived), Twice: v.Extra, Strangers: len(v.Strangers),
		Kept: v.Kept, Deleted: len(v.Missing) - len(missing),
		Early: len(v.Early), Missing: len(missing), early: v.Early, missing: missing,
	}
	for _, m := range messages {
		t.EarliestBy = max(t.EarliestBy, m.EarlyBy())
		// What a stopped broker keeps back in the socket may come much later: these are of confirmed
		// messages.
		if m.Outcome == account.Confirmed && m.Copies > 0 {
			t.LatestBy = max(t.LatestBy, m.Lateness())
			t.AfterEnd = max(t.AfterEnd, min(m.Lateness(), m.Arrived-repaired))
		}
		if m.Answered > 0 {
			t.Slowest = max(t.Slowest, m.Answered-m.Asked)
		}
	}
	return t
}

// promises are what a run is held to: those of docs/reliability.md.
type promises struct {
	lossy      bool          // the broker was taken down, and the Delayer does not claim that messages survive that
	unroutable bool          // a destination may have been gone: a message may be kept as unroutable
	once       bool          // at least once is once, since nothing crashed and no connection was lost
	patience   time.Duration // how long the context of each Publish lasted
	latest     time.Duration // how late a message may be, from the end of the fault on
}

// broken says which promises are broken, a line for each. describe tells of messages.
func (t *Totals) broken(p promises, describe func([]course) string) (problems []string) {
	say := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	say(t.Early > 0, "%d early, the earliest by %v: %s", t.Early, t.EarliestBy, describe(t.early))
	say(t.Missing > 0 && !p.lossy, "%d missing: %s", t.Missing, describe(t.missing))
	say(t.Kept > 0 && !p.unroutable, "%d kept as unroutable, although no destination was gone", t.Kept)
	say(t.Untrue > 0, "%d delivered that Publish had said are not stored", t.Untrue)
	say(t.Revived > 0, "%d delivered that Cancel had said are not", t.Revived)
	say(t.Strangers > 0, "%d messages delivered that nobody published", t.Strangers)
	say(t.Twice > 0 && p.once, "%d extra copies, although nothing crashed and no connection was lost", t.Twice)
	overrun := t.Slowest - p.patience
	say(overrun > mostOverrun, "Publish returned %v after its context had ended", overrun)
	return problems
}

// slow says what took longer than promised. A machine that does other work may explain it.
func (t *Totals) slow(p promises) (lines []string) {
	if t.AfterEnd > p.latest {
		lines = append(lines, fmt.Sprintf("a message came %v after nothing was broken any more, and %v is promised",
			t.AfterEnd.Round(time.Millisecond), p.latest))
	}
	return lines
}

func outage(messages []course, began, ended time.Duration) (longest time.Duration) {
	confirms := []time.Duration{began, ended}
	for _, m := range messages {
		if m.Answered > 0 && m.Err == nil {
			confirms = append(confirms, m.Answered)
		}
	}
	slices.Sort(confirms)
	for i, at := range confirms[1:] {
		longest = max(longest, at-confirms[i])
	}
	return longest
}
