package faults

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
)

// An Outcome is the answer of Publish.
type Outcome int

const (
	// Waiting is no answer yet.
	Waiting Outcome = iota
	// Confirmed is nil.
	Confirmed
	// Refused is an error that says that the message is certainly not stored.
	Refused
	// Unknown is an error that does not.
	Unknown
	// Cancelled is a nil of Cancel.
	Cancelled
)

// An Attempt is one message: each call of Publish has its own.
type Attempt struct {
	Asked    time.Time // just before Publish
	Delay    time.Duration
	Patience time.Duration // of its context
	Answered time.Time
	Outcome  Outcome
	Err      error

	Rescheduled bool      // Reschedule returned nil
	First       time.Time // arrival; zero: none
	Copies      int       // arrivals that are not the consumer's own repetition
	Repetitions int       // copies that the broker marked as delivered before
	Kept        bool      // in the queue for unroutable messages
}

// Due is when it may arrive, not before.
func (a *Attempt) Due() time.Time { return a.Asked.Add(a.Delay) }

// A Ledger has every message of a run. Its methods are safe for concurrent use.
type Ledger struct {
	mu        sync.Mutex
	attempts  []Attempt
	lastOK    time.Time
	outage    time.Duration
	stopped   bool
	confirmed int
	undone    int // confirmed and not arrived
	strangers int // arrivals that are no message of this run
	progress  time.Time
	forgiven  []span
	announced []span // see Announce
	conflict  time.Time
	until     time.Time // when the last is due that was cancelled
	mended    time.Time // see Mended
}

// A span says which confirmed messages an operator may have deleted: asked for before a time, and
// due between two.
type span struct{ asked, dueFrom, dueTo time.Time }

func (s span) covers(a *Attempt) bool {
	return a.Asked.Before(s.asked) && a.Due().After(s.dueFrom) && (s.dueTo.IsZero() || a.Due().Before(s.dueTo))
}

// NewLedger begins now.
func NewLedger() *Ledger {
	now := time.Now()
	return &Ledger{lastOK: now, progress: now}
}

// Begin starts the clock again: publishing begins.
func (l *Ledger) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.lastOK, l.progress = now, now
}

// Ask notes a message about to be published, and returns its number.
func (l *Ledger) Ask(delay, patience time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = append(l.attempts, Attempt{Asked: time.Now(), Delay: delay, Patience: patience})
	return len(l.attempts) - 1
}

// Answer notes what Publish returned.
func (l *Ledger) Answer(id int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.attempts[id]
	a.Answered, a.Err = time.Now(), err
	switch {
	case err == nil:
		a.Outcome = Confirmed
		l.confirmed++
		if a.First.IsZero() && !a.Kept {
			l.undone++
		}
		l.outage = max(l.outage, a.Answered.Sub(l.lastOK))
		l.lastOK = a.Answered
	case errors.Is(err, delayer.ErrUnknown):
		a.Outcome = Unknown
	default:
		a.Outcome = Refused
		if errors.Is(err, delayer.ErrConflict) || errors.Is(err, delayer.ErrRefused) {
			l.conflict = a.Answered
		}
	}
}

// Cancel notes what Cancel returned for a message that was confirmed.
func (l *Ledger) Cancel(id int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.attempts[id]
	switch {
	case err == nil:
		a.Outcome = Cancelled
	case errors.Is(err, delayer.ErrUnknown):
		a.Outcome = Unknown
	default:
		return // it is to come
	}
	if a.First.IsZero() && !a.Kept {
		l.undone--
	}
	if a.Due().After(l.until) {
		l.until = a.Due()
	}
}

// Reschedule notes what Reschedule returned for a message that was confirmed. If that is an error
// the message may be due at either time, and counts as before.
func (l *Ledger) Reschedule(id int, due time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := &l.attempts[id]; err == nil {
		a.Delay, a.Rescheduled = due.Sub(a.Asked), true
	}
}

// pending reports whether something may still arrive that was cancelled.
func (l *Ledger) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.until) < inFlight
}

// Arrive notes a delivery. again says that the broker had given it to the consumer before.
func (l *Ledger) Arrive(id int, at time.Time, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id < 0 || id >= len(l.attempts) {
		l.strangers++
		return
	}
	a := &l.attempts[id]
	if a.First.IsZero() {
		a.First = at
		l.progress = time.Now()
		if a.Outcome == Confirmed && !a.Kept {
			l.undone--
		}
	} else if again {
		a.Repetitions++
		return
	}
	a.Copies++
}

// Keep notes that a message is in the queue for unroutable messages.
func (l *Ledger) Keep(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id < 0 || id >= len(l.attempts) {
		l.strangers++
		return
	}
	a := &l.attempts[id]
	if a.First.IsZero() && !a.Kept && a.Outcome == Confirmed {
		l.undone--
	}
	a.Kept = true
	l.progress = time.Now()
}

// Stop notes that publishing has ended: what comes after it is no outage.
func (l *Ledger) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.outage = max(l.outage, time.Since(l.lastOK))
	}
	l.stopped = true
}

// ForgiveWaiting says that an operator has deleted, from one time to another, the queues where
// messages wait.
func (l *Ledger) ForgiveWaiting(from, to time.Time) {
	l.forgive(span{asked: to, dueFrom: from.Add(-inFlight)})
}

// ForgiveArrived says that an operator has deleted, from one time to another, the queue where
// messages arrive: what had just come is gone with it.
func (l *Ledger) ForgiveArrived(from, to time.Time) {
	l.forgive(span{asked: to, dueFrom: from.Add(-inFlight), dueTo: to})
}

// Announce notes that an operator's policy harmed waiting messages from one time on, and that
// Publish reported it at another. Messages that waited between the two are counted separately.
func (l *Ledger) Announce(from, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.announced = append(l.announced, span{asked: to, dueFrom: from.Add(-inFlight)})
}

// lastConflict is when Publish last answered that something at the broker conflicts with the
// Delayer, or that a queue refuses messages.
func (l *Ledger) lastConflict() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conflict
}

// inFlight is how late a message may be that lies in a queue of a broker that is not behind.
const inFlight = 3 * time.Second

func (l *Ledger) forgive(s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgiven = append(l.forgiven, s)
}

// Mended notes that nothing is broken from a time on. The last call counts.
func (l *Ledger) Mended(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mended = at
}

// CaughtUp looks at the messages that were due from one time to another and came after it: how
// many, and how long after it half of them and all of them had come.
func (l *Ledger) CaughtUp(from, to time.Time) (messages int, half, last time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var after []time.Duration
	for i := range l.attempts {
		a := &l.attempts[i]
		if due := a.Due(); a.First.After(to) && due.After(from) && due.Before(to) {
			after = append(after, a.First.Sub(to))
		}
	}
	if len(after) == 0 {
		return 0, 0, 0
	}
	slices.Sort(after)
	return len(after), after[len(after)/2], after[len(after)-1]
}

// counts returns how many were confirmed, how many of them have not arrived, and when the last new
// one did.
func (l *Ledger) counts() (confirmed, undone int, progress time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.confirmed, l.undone, l.progress
}

// An Account says what became of the messages.
type Account struct {
	Sent, Confirmed, Refused, Unknown int

	Delivered   int // of those confirmed
	Surprised   int // delivered, and Publish had answered that the outcome is unknown
	Untrue      int // delivered, although Publish had answered that they are not stored
	Cancelled   int
	Rescheduled int // made due later
	Revived     int // delivered, although Cancel had answered that they are not
	Twice       int // extra copies, without those that the broker marked as delivered to the consumer before
	Strangers   int // deliveries that are no message of ours
	Kept        int // confirmed and not delivered, but in the queue for unroutable messages
	Deleted     int // confirmed and gone with what an operator deleted
	Spoilt      int // early or gone by an operator's policy, before Publish answered that there is one

	Early   []int // by number
	Missing []int // confirmed, by number

	EarliestBy time.Duration // how much the earliest was early
	LatestBy   time.Duration // how long after its time the last arrived
	AfterEnd   time.Duration // the same, but from the end of the fault on for those that were due before
	Outage     time.Duration // longest time between two confirms while publishing
	Overrun    time.Duration // how long after the end of its context a Publish returned, at most
	Errors     map[string]int
}

// Account adds up. A copy counts as early by its first arrival.
func (l *Ledger) Account() Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	acc := Account{Sent: len(l.attempts), Strangers: l.strangers, Outage: l.outage, Errors: map[string]int{}}
	for id := range l.attempts {
		a := &l.attempts[id]
		announced := slices.ContainsFunc(l.announced, func(s span) bool { return s.covers(a) })
		if a.Rescheduled {
			acc.Rescheduled++
		}
		acc.outcome(id, a, l.deleted(a), announced)
		acc.arrival(id, a, announced, l.mended)
		if a.Err != nil {
			acc.Errors[brief(a.Err)]++
		}
		acc.Overrun = max(acc.Overrun, a.Answered.Sub(a.Asked.Add(a.Patience)))
	}
	return acc
}

func (acc *Account) outcome(id int, a *Attempt, deleted, announced bool) {
	arrived := !a.First.IsZero()
	switch a.Outcome {
	case Confirmed:
		acc.Confirmed++
		switch {
		case arrived:
			acc.Delivered++
		case a.Kept:
			acc.Kept++
		case deleted:
			acc.Deleted++
		case announced:
			acc.Spoilt++
		default:
			acc.Missing = append(acc.Missing, id)
		}
	case Refused:
		acc.Refused++
		if arrived {
			acc.Untrue++
		}
	case Cancelled:
		acc.Cancelled++
		if arrived && !deleted {
			acc.Revived++
		}
	default:
		acc.Unknown++
		if arrived {
			acc.Surprised++
		}
	}
}

func (acc *Account) arrival(id int, a *Attempt, announced bool, mended time.Time) {
	if a.First.IsZero() {
		return
	}
	late := a.First.Sub(a.Due())
	switch {
	case late < 0 && announced:
		acc.Spoilt++
	case late < 0:
		acc.Early = append(acc.Early, id)
		acc.EarliestBy = max(acc.EarliestBy, -late)
	}
	if a.Outcome == Confirmed { // what a stopped broker keeps back in the socket may come much later
		acc.LatestBy = max(acc.LatestBy, late)
		acc.AfterEnd = max(acc.AfterEnd, min(late, a.First.Sub(mended)))
	}
	acc.Twice += a.Copies - 1
}

// deleted says that an operator's deletion may have taken a message.
func (l *Ledger) deleted(a *Attempt) bool {
	return slices.ContainsFunc(l.forgiven, func(s span) bool { return s.covers(a) })
}

// brief is an error without what differs from message to message.
func brief(err error) string {
	var e *delayer.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := e.Kind.Error()
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	const most = 110
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// Worst lists the first of the numbers, for a failure's text.
func (l *Ledger) Worst(ids []int) []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Attempt
	for _, id := range ids[:min(len(ids), 10)] {
		list = append(list, l.attempts[id])
	}
	return list
}
