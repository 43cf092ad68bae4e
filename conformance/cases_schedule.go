package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
)

// unsupported schedules a message, and changes it.
func unsupported(t *trial) {
	s := &schedule{trial: t, in: t.queue(t.name("queue")), tickets: map[string]delayer.Ticket{}}
	o := outcome{job: to(s.in, "scheduled", t.short()), before: time.Now()}
	calls := map[string]func(context.Context, delayer.Ticket) error{
		"Schedule": func(ctx context.Context, _ delayer.Ticket) error {
			_, err := t.d.Schedule(ctx, o.exchange, o.key, o.delay, o.msg)
			return err
		},
		"Cancel": t.d.Cancel,
		"Reschedule": func(ctx context.Context, ticket delayer.Ticket) error {
			_, err := t.d.Reschedule(ctx, ticket, t.short())
			return err
		},
	}
	can := t.lim.CancelBefore > 0
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.ctx, t.h.Patience)
		err := call(ctx, "no-ticket")
		cancel()
		if errors.Is(err, errors.ErrUnsupported) == can {
			t.errorf("%s returned %v, and Limits.CancelBefore is %v", name, err, t.lim.CancelBefore)
		}
		if !can && !delayer.SafeToRetry(err) {
			t.errorf("%s: SafeToRetry is false for %v", name, err)
		}
	}
	o.after = time.Now()
	if can {
		s.present = append(s.present, o)
	}
	s.arrive()
}

// A schedule is a trial of messages that are scheduled for one queue.
type schedule struct {
	*trial
	in      *receiver
	tickets map[string]delayer.Ticket
	present []outcome // what must arrive
	unsure  []outcome // what may arrive
}

// ticketed is a check of Delayers that can cancel.
func ticketed(check func(*schedule)) func(*trial) {
	return func(t *trial) {
		if t.lim.CancelBefore <= 0 {
			t.Logf("does not apply: Limits.CancelBefore is 0")
			return
		}
		check(&schedule{trial: t, in: t.queue(t.name("queue")), tickets: map[string]delayer.Ticket{}})
	}
}

// unhurried is a delay that leaves time to cancel dozens of messages, also on a machine that is
// busy.
func (t *trial) unhurried() time.Duration { return t.delay(t.lim.CancelBefore + 4*several) }

// put schedules n messages and returns their outcomes.
func (s *schedule) put(n int, prefix string, delay time.Duration) []outcome {
	s.Helper()
	var outs []outcome
	for _, j := range jobs(n, prefix, func(_ int, id string) job { return to(s.in, id, delay) }) {
		ctx, cancel := context.WithTimeout(s.ctx, s.h.Patience)
		o := outcome{job: j, before: time.Now()}
		s.tickets[o.id()], o.err = s.d.Schedule(ctx, j.exchange, j.key, j.delay, j.msg)
		cancel()
		o.after = time.Now()
		if o.err != nil {
			s.failf("message %s: Schedule returned %v", o.id(), o.err)
		}
		outs = append(outs, o)
	}
	return outs
}

// cancel cancels a message by any Delayer, and returns whether it was in time.
func (s *schedule) cancel(by delayer.Delayer, o outcome) bool {
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

// reschedule gives a message a new delay. If that is refused with one of kinds, nothing changes.
func (s *schedule) reschedule(o outcome, delay time.Duration, kinds ...error) outcome {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.h.Patience)
	defer cancel()
	before := time.Now()
	ticket, err := s.d.Reschedule(ctx, s.tickets[o.id()], delay)
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return o
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
func cancels(s *schedule) {
	const messages = 20
	other := s.open()
	defer func() { _ = other.Close() }()
	gone := s.put(messages, "gone", s.unhurried())
	s.present = s.put(messages, "kept", s.unhurried())
	inTime := 0
	for i, o := range gone {
		by := s.d
		if i%2 == 0 {
			by = other
		}
		if !s.cancel(by, o) {
			continue
		}
		inTime++
		if i%3 == 0 && !s.cancel(s.d, o) {
			s.errorf("message %s: it was cancelled, and cannot be cancelled again", o.id())
		}
	}
	if inTime == 0 {
		s.errorf("none of %d messages could be cancelled, %v before they are due", messages, s.unhurried())
	}
	s.arrive()
}

// cancelTooLate cancels what is due very soon, and what has arrived.
func cancelTooLate(s *schedule) {
	outs := s.put(10, "soon", s.short())
	if s.short() >= s.lim.CancelBefore {
		s.await(s.in, outs)
	}
	for _, o := range outs {
		if s.cancel(s.d, o) {
			s.errorf("message %s: Cancel returned nil %v after it was scheduled with a delay of %v", o.id(), time.Since(o.before), o.delay)
		}
	}
	s.arrive()
	s.present = nil
	for _, o := range outs {
		if s.cancel(s.d, o) {
			s.errorf("message %s: Cancel returned nil after it has arrived", o.id())
		}
	}
}

// reschedules makes messages later, some twice, cancels some of these, and makes others earlier.
func reschedules(s *schedule) {
	const messages = 10
	later := s.delay(s.unhurried() + several)
	for i, o := range s.put(messages, "later", s.unhurried()) {
		o = s.reschedule(o, later)
		if i%3 == 0 {
			o = s.reschedule(o, later)
		}
		if i%4 == 1 && s.cancel(s.d, o) {
			continue
		}
		s.present = append(s.present, o)
	}
	far := s.delay(100 * s.unhurried())
	for _, o := range s.put(messages, "earlier", far) {
		moved := s.reschedule(o, s.unhurried(), delayer.ErrOutOfRange)
		if moved.delay == far && far > later && s.cancel(s.d, o) {
			continue // it would take too long
		}
		s.present = append(s.present, moved)
	}
	s.arrive()
}

// tickets tries texts that are almost tickets.
func tickets(s *schedule) {
	s.present = s.put(3, "kept", s.delay(several))
	good := string(s.tickets[s.present[0].id()])
	texts := []string{"", "x", good + "x", good + good, " " + good, good[:len(good)-1]}
	for i := range good {
		if good[i] != 'A' {
			texts = append(texts, good[:i]+"A"+good[i+1:])
		}
	}
	for _, text := range texts {
		if err := s.d.Cancel(s.ctx, delayer.Ticket(text)); !errors.Is(err, delayer.ErrTicket) {
			s.errorf("Cancel of %q returned %v", abridged(text), err)
		}
		if _, err := s.d.Reschedule(s.ctx, delayer.Ticket(text), s.unhurried()); !errors.Is(err, delayer.ErrTicket) {
			s.errorf("Reschedule of %q returned %v", abridged(text), err)
		}
	}
	s.arrive()
}
