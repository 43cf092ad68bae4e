package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
)

var scheduleCases = []testCase{
	{Case: Case{"scheduler", "a Delayer must be a Scheduler if, and only if, its Limits say until when a message can be cancelled"}, check: isScheduler},
	{Case: Case{"cancel", "a message must not arrive if its Cancel has returned nil, and no other may be missing for it"}, check: cancels},
	{Case: Case{"cancel-too-late", "a message that cannot be held back for certain must arrive, and its Cancel must return ErrTooLate"}, check: cancelTooLate},
	{Case: Case{"reschedule", "a message that was rescheduled must arrive once, and not before its new time"}, check: reschedules},
	{Case: Case{"tickets", "a text that is no ticket must be refused with ErrTicket, and change nothing"}, check: tickets},
}

func isScheduler(t *trial) {
	if _, is := t.d.(delayer.Scheduler); is != (t.lim.CancelBefore > 0) {
		t.errorf("it is %t that it is a Scheduler, and Limits.CancelBefore is %v", is, t.lim.CancelBefore)
	}
}

// A schedule is what a case schedules for one queue.
type schedule struct {
	*trial
	delayer.Scheduler
	in      *receiver
	tickets map[string]delayer.Ticket
	present []outcome // what must arrive
	unsure  []outcome // what may
}

// schedule returns nil if the Delayer is no Scheduler.
func (t *trial) schedule() *schedule {
	s, is := t.d.(delayer.Scheduler)
	if !is || t.lim.CancelBefore <= 0 {
		t.Logf("does not apply: it is no Scheduler")
		return nil
	}
	return &schedule{trial: t, Scheduler: s, in: t.queue(t.name("queue")), tickets: map[string]delayer.Ticket{}}
}

// unhurried is a delay that leaves time to cancel dozens of messages, also on a machine that is busy.
func (t *trial) unhurried() time.Duration { return t.delay(t.lim.CancelBefore + 4*several) }

// put schedules n messages and returns their outcomes.
func (s *schedule) put(n int, prefix string, delay time.Duration) []outcome {
	s.Helper()
	var outs []outcome
	for _, j := range jobs(n, prefix, func(_ int, id string) job { return to(s.in, id, delay) }) {
		ctx, cancel := context.WithTimeout(s.ctx, s.h.Patience)
		o := outcome{job: j, before: time.Now()}
		s.tickets[o.id()], o.err = s.Schedule(ctx, j.exchange, j.key, j.delay, j.msg)
		cancel()
		o.after = time.Now()
		if o.err != nil {
			s.failf("message %s: Schedule returned %v", o.id(), o.err)
		}
		outs = append(outs, o)
	}
	return outs
}

// cancel cancels a message by any Scheduler, and returns whether it was in time.
func (s *schedule) cancel(by delayer.Scheduler, o outcome) bool {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.h.Patience)
	defer cancel()
	err := by.Cancel(ctx, s.tickets[o.id()])
	switch {
	case err == nil:
		return true
	case errors.Is(err, delayer.ErrTooLate):
		s.present = append(s.present, o)
	case errors.Is(err, delayer.ErrUnknown):
		s.unsure = append(s.unsure, o)
	default:
		s.errorf("message %s: Cancel returned %v", o.id(), err)
	}
	return false
}

// reschedule makes a message due later, or leaves it where that is refused with one of kinds.
func (s *schedule) reschedule(o outcome, delay time.Duration, kinds ...error) outcome {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.h.Patience)
	defer cancel()
	before := time.Now()
	ticket, err := s.Reschedule(ctx, s.tickets[o.id()], delay)
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return o
		}
	}
	if err != nil {
		s.errorf("message %s: Reschedule returned %v", o.id(), err)
		return o
	}
	s.tickets[o.id()] = ticket
	o.before, o.delay = before, delay
	return o
}

// arrive waits for all that must arrive, and checks that nothing else did.
func (s *schedule) arrive() {
	s.Helper()
	s.await(s.in, s.present)
	s.sentinel(s.in)
	s.only(s.in, slices.Concat(s.present, s.unsure), false)
}

// cancels cancels some of many, by this Delayer and by another one, once and twice.
func cancels(t *trial) {
	const messages = 20
	s := t.schedule()
	if s == nil {
		return
	}
	opened := t.open()
	defer func() { _ = opened.Close() }()
	other, is := opened.(delayer.Scheduler)
	if !is {
		t.failf("another Delayer is no Scheduler")
	}
	gone := s.put(messages, "gone", t.unhurried())
	s.present = s.put(messages, "kept", t.unhurried())
	inTime := 0
	for i, o := range gone {
		by := s.Scheduler
		if i%2 == 0 {
			by = other
		}
		if !s.cancel(by, o) {
			continue
		}
		inTime++
		if i%3 == 0 && !s.cancel(s.Scheduler, o) {
			t.errorf("message %s: it was cancelled, and cannot be cancelled again", o.id())
		}
	}
	if inTime == 0 {
		t.errorf("none of %d messages could be cancelled, %v before they are due", messages, t.unhurried())
	}
	s.arrive()
}

// cancelTooLate cancels what is due very soon, and what has arrived.
func cancelTooLate(t *trial) {
	s := t.schedule()
	if s == nil {
		return
	}
	outs := s.put(10, "soon", t.short())
	if t.short() >= t.lim.CancelBefore {
		t.await(s.in, outs)
	}
	for _, o := range outs {
		if s.cancel(s.Scheduler, o) {
			t.errorf("message %s: Cancel returned nil %v after it was scheduled with a delay of %v", o.id(), time.Since(o.before), o.delay)
		}
	}
	s.arrive()
	s.present = nil
	for _, o := range outs {
		if s.cancel(s.Scheduler, o) {
			t.errorf("message %s: Cancel returned nil after it has arrived", o.id())
		}
	}
}

// reschedules postpones messages, once and twice, cancels some of these, and makes others earlier.
func reschedules(t *trial) {
	const messages = 10
	s := t.schedule()
	if s == nil {
		return
	}
	later := t.delay(t.unhurried() + several)
	for i, o := range s.put(messages, "later", t.unhurried()) {
		o = s.reschedule(o, later)
		if i%3 == 0 {
			o = s.reschedule(o, later)
		}
		if i%4 == 1 && s.cancel(s.Scheduler, o) {
			continue
		}
		s.present = append(s.present, o)
	}
	far := t.delay(100 * t.unhurried())
	for _, o := range s.put(messages, "earlier", far) {
		moved := s.reschedule(o, t.unhurried(), delayer.ErrOutOfRange)
		if moved.delay == far && far > later && s.cancel(s.Scheduler, o) {
			continue // it would take too long
		}
		s.present = append(s.present, moved)
	}
	s.arrive()
}

// tickets offers texts that are nearly tickets.
func tickets(t *trial) {
	s := t.schedule()
	if s == nil {
		return
	}
	s.present = s.put(3, "kept", t.delay(several))
	good := string(s.tickets[s.present[0].id()])
	texts := []string{"", "x", good + "x", good + good, " " + good, good[:len(good)-1]}
	for i := range good {
		if good[i] != 'A' {
			texts = append(texts, good[:i]+"A"+good[i+1:])
		}
	}
	for _, text := range texts {
		if err := s.Cancel(t.ctx, delayer.Ticket(text)); !errors.Is(err, delayer.ErrTicket) {
			t.errorf("Cancel of %q returned %v", abridged(text), err)
		}
		if _, err := s.Reschedule(t.ctx, delayer.Ticket(text), t.unhurried()); !errors.Is(err, delayer.ErrTicket) {
			t.errorf("Reschedule of %q returned %v", abridged(text), err)
		}
	}
	s.arrive()
}
