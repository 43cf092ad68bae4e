// Package account keeps an account of messages: what was published, what the publisher was told,
// and what arrived, when and how often. The conformance suite, the benchmark, the fault campaign
// and the rehearsal of a migration judge Delayers by it.
package account

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
)

// An Outcome is what the publisher was told last of a message.
type Outcome uint8

const (
	// Waiting is no answer yet.
	Waiting Outcome = iota
	// Confirmed is nil of Publish: the message must arrive.
	Confirmed
	// Refused is an error that guarantees that the message is not stored: it must not arrive.
	Refused
	// Unknown is [delayer.ErrUnknown]: the message may arrive.
	Unknown
	// Cancelled is nil of Cancel: the message must not arrive.
	Cancelled
)

// OutcomeOf tells what Publish has said. An error of another package counts as a guarantee too, as
// every error of a Delayer is one but ErrUnknown.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Confirmed
	case errors.Is(err, delayer.ErrUnknown):
		return Unknown
	}
	return Refused
}

// An Account has all messages of a run, each under an id that is its own. Its methods are safe for
// concurrent use. What they tell of a message may come in any order: an arrival before the answer
// of Publish, or before Ask.
//
// Times are durations on the monotonic clock since the account's epoch, and never 0.
type Account[ID comparable] struct {
	epoch time.Time

	mu      sync.Mutex
	byID    map[ID]*Course[ID]
	inOrder []*Course[ID] // as they were first heard of
	block   []Course[ID]  // messages are allocated by the block
	counts  Counts
	quiet   time.Duration // since when nothing has arrived, or since the last was due
}

// Counts tells how far a run is.
type Counts struct {
	Confirmed int // Publish returned nil
	Failed    int // Publish returned an error
	Arrived   int // or kept; of those that are awaited
	Undone    int // confirmed and awaited, and neither arrived nor kept
}

// New returns an empty account. No message is asked for before the epoch.
func New[ID comparable](epoch time.Time) *Account[ID] {
	return &Account[ID]{epoch: epoch, byID: map[ID]*Course[ID]{}}
}

// Now is the time since the epoch.
func (a *Account[ID]) Now() time.Duration { return a.At(time.Now()) }

// At is t as a time since the epoch.
func (a *Account[ID]) At(t time.Time) time.Duration { return t.Sub(a.epoch) + 1 }

// Time is the opposite of At.
func (a *Account[ID]) Time(at time.Duration) time.Time { return a.epoch.Add(at - 1) }

// Ask notes a message just before Publish: its ID, Group, Aside, Intended, Asked and Delay. Where
// Intended is 0 it is Asked. A message that is asked for again, since Publish failed, is due at the
// earliest of these times.
func (a *Account[ID]) Ask(plan Course[ID]) {
	if plan.Intended == 0 {
		plan.Intended = plan.Asked
	}
	a.note(plan.ID, func(m *Course[ID]) {
		if m.Asked == 0 || plan.Asked+plan.Delay < m.Asked+m.Delay {
			m.Intended, m.Asked, m.Delay = plan.Intended, plan.Asked, plan.Delay
		}
		m.Group, m.Aside = plan.Group, plan.Aside
		if !m.Aside {
			a.quiet = max(a.quiet, plan.Due())
		}
	})
}

// Answer notes what Publish returned.
func (a *Account[ID]) Answer(id ID, at time.Duration, err error) {
	a.note(id, func(m *Course[ID]) {
		m.Answered, m.Err, m.Outcome = at, err, OutcomeOf(err)
		if err == nil {
			a.counts.Confirmed++
		} else {
			a.counts.Failed++
		}
	})
}

// Cancel notes what Cancel returned for a message that was confirmed. After an error that is not
// ErrUnknown it is still to arrive.
func (a *Account[ID]) Cancel(id ID, err error) {
	a.note(id, func(m *Course[ID]) {
		switch OutcomeOf(err) {
		case Confirmed:
			m.Outcome = Cancelled
		case Unknown:
			m.Outcome = Unknown
		}
	})
}

// Postpone notes what Postpone returned for a message that was confirmed and is now due at a
// later time. After an error the message may be due at either, and counts as before.
func (a *Account[ID]) Postpone(id ID, due time.Duration, err error) {
	a.note(id, func(m *Course[ID]) {
		if err == nil {
			m.Intended, m.Delay, m.Postponed = m.Asked, due-m.Asked, true
			a.quiet = max(a.quiet, due)
		}
	})
}

// Arrive notes a delivery.
func (a *Account[ID]) Arrive(id ID, at time.Duration) {
	a.note(id, func(m *Course[ID]) { a.arrive(m, at) })
}

// Redelivered notes a delivery that the broker marks as one that the consumer was given before. It
// is a copy only if there was none: the first may have been lost on its way.
func (a *Account[ID]) Redelivered(id ID, at time.Duration) {
	a.note(id, func(m *Course[ID]) {
		if m.Copies == 0 {
			a.arrive(m, at)
		}
	})
}

func (a *Account[ID]) arrive(m *Course[ID], at time.Duration) {
	if m.Copies == 0 || at < m.Arrived {
		m.Arrived = at
	}
	m.Copies++
	if !m.Aside {
		a.quiet = max(a.quiet, at)
	}
}

// Keep notes that a message is where it can be had, instead of at its destination, as in the queue
// for unroutable messages.
func (a *Account[ID]) Keep(id ID, at time.Duration) {
	a.note(id, func(m *Course[ID]) {
		m.Kept = true
		a.quiet = max(a.quiet, at)
	})
}

func (a *Account[ID]) note(id ID, change func(*Course[ID])) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, known := a.byID[id]
	if !known {
		if len(a.block) == cap(a.block) {
			a.block = make([]Course[ID], 0, 1024)
		}
		a.block = append(a.block, Course[ID]{ID: id})
		m = &a.block[len(a.block)-1]
		a.byID[id], a.inOrder = m, append(a.inOrder, m)
	}
	arrived, missing := m.awaitedArrived(), m.awaitedMissing()
	change(m)
	a.counts.Arrived += m.awaitedArrived() - arrived
	a.counts.Undone += m.awaitedMissing() - missing
}

// Counts tells how far the run is.
func (a *Account[ID]) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// Await returns when every confirmed message that is awaited has arrived or is kept, or when for
// patience nothing has arrived, nothing was due and Await waited. The error is that of ctx. It is
// called when publishing is over.
func (a *Account[ID]) Await(ctx context.Context, patience time.Duration) error {
	for began := a.Now(); ; {
		a.mu.Lock()
		over := a.counts.Undone == 0 || a.Now() >= max(a.quiet, began)+patience
		a.mu.Unlock()
		if over || ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// Messages copies all messages, as they were first heard of.
func (a *Account[ID]) Messages() []Course[ID] {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]Course[ID], len(a.inOrder))
	for i, m := range a.inOrder {
		list[i] = *m
	}
	return list
}

// Verdict judges all messages that are not aside.
func (a *Account[ID]) Verdict() Verdict[ID] { return Judge(a.Messages()) }

// A Course is what became of one message. Times are those of its [Account]; 0 is never.
type Course[ID comparable] struct {
	ID    ID
	Group int  // what the message is for: the caller's
	Aside bool // only noted: neither awaited nor judged

	Intended time.Duration // when Publish was to be called
	Asked    time.Duration // just before Publish was called
	Delay    time.Duration // what was asked of the Delayer
	Answered time.Duration // when Publish returned
	Err      error         // what Publish returned
	Outcome  Outcome       // what the publisher was told last

	Postponed bool          // Postpone has changed Delay
	Kept      bool          // found elsewhere than at its destination
	Copies    int           // how often it arrived
	Arrived   time.Duration // the earliest arrival, if Copies > 0
}

// Due is when the message was meant to arrive.
func (m *Course[ID]) Due() time.Duration { return m.Intended + m.Delay }

// Lateness is how long after Due the message arrived. It tells nothing if Copies is 0.
func (m *Course[ID]) Lateness() time.Duration { return m.Arrived - m.Due() }

// EarlyBy is how much of the delay was missing when the message arrived; 0 if it was not early. It
// counts from Asked, not from Intended: a late Publish must not hide an early arrival.
func (m *Course[ID]) EarlyBy() time.Duration {
	if m.Copies == 0 {
		return 0
	}
	return max(0, m.Asked+m.Delay-m.Arrived)
}

// Missing reports whether the message was promised, and is nowhere.
func (m *Course[ID]) Missing() bool { return m.Outcome == Confirmed && m.Copies == 0 && !m.Kept }

// Stranger reports whether nobody has asked for the message.
func (m *Course[ID]) Stranger() bool { return m.Asked == 0 }

func (m *Course[ID]) awaitedMissing() int { return one(!m.Aside && m.Missing()) }

func (m *Course[ID]) awaitedArrived() int {
	return one(!m.Aside && !m.Stranger() && (m.Copies > 0 || m.Kept))
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// A Verdict says what became of messages. A list has each message once, in the order in which they
// were first heard of. A message may be in several lists.
type Verdict[ID comparable] struct {
	Sent                                   int // asked for
	Confirmed, Refused, Unknown, Cancelled int // by the last answer
	Postponed                              int

	Delivered int // confirmed and arrived
	Kept      int // confirmed and kept, and not arrived
	Surprised int // unknown and arrived
	Extra     int // copies beyond the first of each message

	// What must not be. At least once allows Twice after a failure.
	Missing   []Course[ID] // confirmed, and neither arrived nor kept
	Early     []Course[ID]
	Twice     []Course[ID] // arrived more than once
	Untrue    []Course[ID] // refused, and arrived
	Revived   []Course[ID] // cancelled, and arrived
	Strangers []Course[ID] // arrived, and nobody asked for them
}

// Judge judges messages. It leaves out those that are aside.
func Judge[ID comparable](messages []Course[ID]) (v Verdict[ID]) {
	for _, m := range messages {
		arrived := m.Copies > 0
		switch {
		case m.Aside:
			continue
		case m.Stranger():
			v.Strangers = append(v.Strangers, m)
			continue
		}
		v.Sent++
		v.Postponed += one(m.Postponed)
		v.Extra += max(0, m.Copies-1)
		add(&v.Early, m, m.EarlyBy() > 0)
		add(&v.Twice, m, m.Copies > 1)
		switch m.Outcome {
		case Confirmed:
			v.Confirmed++
			v.Delivered += one(arrived)
			v.Kept += one(m.Kept && !arrived)
			add(&v.Missing, m, m.Missing())
		case Refused:
			v.Refused++
			add(&v.Untrue, m, arrived)
		case Cancelled:
			v.Cancelled++
			add(&v.Revived, m, arrived)
		case Unknown:
			v.Unknown++
			v.Surprised += one(arrived)
		}
	}
	return v
}

func add[ID comparable](list *[]Course[ID], m Course[ID], yes bool) {
	if yes {
		*list = append(*list, m)
	}
}
