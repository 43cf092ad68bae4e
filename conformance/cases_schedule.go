package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
)

func unsupported(t *trial) {
	s := newSchedule(t)
	o := s.schedule(to(s.in, "scheduled", t.short()))
	_, postponed := s.d.Postpone(s.ctx, "no-ticket", t.short())
	_, ticket := t.d.Ticket("id", time.Now())
	can := t.lim.CancelBefore > 0
	for name, err := range map[string]error{
		"Schedule": o.err, "Ticket": ticket, "Cancel": t.d.Cancel(t.ctx, "no-ticket"), "Postpone": postponed,
	} {
		if errors.Is(err, errors.ErrUnsupported) == can {
			t.errorf("%s returned %v, and Limits.CancelBefore is %v", name, err, t.lim.CancelBefore)
		}
		if !can && !delayer.SafeToRetry(err) {
			t.errorf("%s: SafeToRetry is false for %v", name, err)
		}
	}
	if can {
		s.present = append(s.present, o)
	}
	withID, withDue := to(s.in, "with-id", t.short()).message(), to(s.in, "with-due", 0).message()
	withID.ID, withDue.Due = "id", time.Now().Add(t.short())
	for i, err := range t.d.PublishBatch(t.ctx, []delayer.Message{withID, withDue}) {
		t.refused(outcome{job: job{msg: [...]delayer.Message{withID, withDue}[i].Publishing}, err: err}, delayer.ErrInvalid)
	}
	s.arrive()
}

type schedule struct {
	*trial
	in      *receiver
	tickets map[string]delayer.Ticket
	present []outcome // what must arrive
	unsure  []outcome // what may arrive
}

func newSchedule(t *trial) *schedule {
	return &schedule{trial: t, in: t.queue(t.name("queue")), tickets: map[string]delayer.Ticket{}}
}

// ticketed is a check of Delayers that can cancel.
func ticketed(check func(*schedule)) func(*trial) {
	return func(t *trial) {
		if t.lim.CancelBefore <= 0 {
			t.Passf("does not apply: Limits.CancelBefore is 0")
		}
		check(newSchedule(t))
	}
}

func (s *schedule) schedule(j job) outcome {
	o := outcome{job: j, before: time.Now()}
	s.tickets[o.id()], o.err = s.d.Schedule(s.ctx, j.message())
	o.after = time.Now()
	return o
}

// unhurried is a delay that leaves time to cancel dozens of messages, also on a machine that is
// busy.
func (t *trial) unhurried() time.Duration { return t.delay(t.lim.CancelBefore + 4*several) }

func (s *schedule) put(n int, prefix string, delay time.Duration) []outcome {
	s.Helper()
	var outs []outcome
	for _, j := range jobs(n, prefix, func(_ int, id string) job { return to(s.in, id, delay) }) {
		o := s.schedule(j)
		if o.err != nil {
			s.failf("message %s: Schedule returned %v", o.id(), o.err)
		}
		outs = append(outs, o)
	}
	return outs
}

func (s *schedule) cancel(by delayer.Delayer, o outcome) bool {
	s.Helper()
	err := by.Cancel(s.ctx, s.tickets[o.id()])
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

// postpone makes a message later. What it returns is to be expected then: the message as it was, if
// a slow machine has come to it too late.
func (s *schedule) postpone(o outcome, delay time.Duration) outcome {
	s.Helper()
	before := time.Now()
	ticket, err := s.d.Postpone(s.ctx, s.tickets[o.id()], delay)
	if errors.Is(err, delayer.ErrTooLate) && time.Until(o.before.Add(o.delay)) < s.lim.CancelBefore+several {
		return o
	}
	if err != nil {
		s.errorf("message %s: Postpone returned %v", o.id(), err)
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

// inTime checks that some of n messages could be cancelled.
func (s *schedule) inTime(cancelled, n int) {
	s.Helper()
	if cancelled == 0 {
		s.errorf("none of %d messages could be cancelled, %v before they are due", n, s.unhurried())
	}
}

func cancels(s *schedule) {
	const messages = 20
	other := s.open()
	defer func() { _ = other.Close() }()
	gone := s.put(messages, "gone", s.unhurried())
	s.present = s.put(messages, "kept", s.unhurried())
	cancelled := 0
	for i, o := range gone {
		by := []delayer.Delayer{other, s.d}[i%2]
		if !s.cancel(by, o) {
			continue
		}
		cancelled++
		if i%3 == 0 && !s.cancel(s.d, o) {
			s.errorf("message %s: it was cancelled, and cannot be cancelled again", o.id())
		}
	}
	s.inTime(cancelled, messages)
	s.arrive()
}

// cancelTooLate cancels what is due very soon, and what has arrived.
func cancelTooLate(s *schedule) {
	outs := s.put(10, "soon", s.short())
	if s.short() >= s.lim.CancelBefore {
		s.await(s.in, outs)
	}
	for range 2 { // by the second time, all have arrived
		s.present = nil
		for _, o := range outs {
			if s.cancel(s.d, o) {
				s.errorf("message %s: Cancel returned nil %v after it was scheduled with a delay of %v", o.id(), time.Since(o.before), o.delay)
			}
		}
		s.arrive()
	}
}

// later is a delay that is longer than unhurried, where there is one.
func (t *trial) later() time.Duration { return t.delay(t.unhurried() + several) }

// last puts one more message behind what must not arrive, and waits for all that must.
func (s *schedule) last(delay time.Duration) {
	s.Helper()
	s.present = append(s.present, s.put(1, "last", delay)...)
	s.arrive()
}

func postpones(s *schedule) {
	const messages = 12
	cancelled := 0
	for i, o := range s.put(messages, "later", s.unhurried()) {
		older := s.tickets[o.id()]
		o = s.postpone(o, s.later())
		if i%3 == 0 {
			o = s.postpone(o, s.later())
		}
		if i%4 == 0 {
			s.tickets[o.id()] = older
		}
		if i%4 > 1 {
			s.present = append(s.present, o)
		} else if s.cancel(s.d, o) {
			cancelled++
		}
	}
	s.inTime(cancelled, messages)
	s.last(s.later())
}

func postponesEarlier(s *schedule) {
	far, near := s.delay(s.later()+2*s.lim.Resolution), s.short()
	if far-near < several+s.lim.Resolution { // less than the resolution counts as the same
		s.sentinel(s.in)
		s.Passf("does not apply: no delay is much shorter than %v", far)
	}
	refused := 0
	s.present = s.put(10, "earlier", far)
	for _, o := range s.present {
		_, err := s.d.Postpone(s.ctx, s.tickets[o.id()], near)
		switch {
		case errors.Is(err, delayer.ErrOutOfRange):
			refused++
		case !errors.Is(err, delayer.ErrTooLate): // as it is on a slow machine
			s.errorf("message %s: Postpone to %v, instead of %v, returned %v", o.id(), near, far, err)
		}
	}
	if refused == 0 {
		s.errorf("no Postpone to %v, instead of %v, returned ErrOutOfRange", near, far)
	}
	s.arrive()
}

// olderTicket postpones messages, and uses their first tickets after the time of these.
func olderTicket(s *schedule) {
	more := s.lim.CancelBefore + 2*several // time to use the newer tickets
	outs := s.put(9, "postponed", s.unhurried())
	older := map[string]delayer.Ticket{}
	for i, o := range outs {
		older[o.id()] = s.tickets[o.id()]
		outs[i] = s.postpone(o, s.delay(s.unhurried()+more))
	}
	clock := s.put(1, "clock", s.unhurried())
	s.await(s.in, clock) // so what was due before is over
	for i, o := range outs {
		if _, err := s.d.Postpone(s.ctx, older[o.id()], s.delay(s.unhurried()+2*more)); !errors.Is(err, delayer.ErrTooLate) {
			s.errorf("message %s: Postpone returned %v, with a ticket whose time is over", o.id(), err)
		}
		if err := s.d.Cancel(s.ctx, older[o.id()]); !errors.Is(err, delayer.ErrTooLate) {
			s.errorf("message %s: Cancel returned %v, with a ticket whose time is over", o.id(), err)
		}
		if i%3 > 0 || !s.cancel(s.d, o) {
			s.present = append(s.present, o)
		}
	}
	s.present = append(s.present, clock...)
	s.last(s.delay(more))
}

// oneTicketTwice postpones each message twice by its first ticket, to the longer delay first or
// last. Some are postponed by the newer ticket too, in between and by less.
func oneTicketTwice(s *schedule) {
	const messages = 12
	for i, o := range s.put(messages, "twice", s.unhurried()) {
		delays := [...]time.Duration{s.later(), s.delay(s.unhurried() + 2*several)}
		if i%2 == 0 {
			slices.Reverse(delays[:])
		}
		first := s.tickets[o.id()]
		var due [2]outcome
		var next [2]delayer.Ticket
		for j, delay := range delays {
			s.tickets[o.id()] = first
			due[j] = s.postpone(o, delay)
			if i%4 == 1 && j == 0 {
				due[j] = s.postpone(due[j], s.delay(s.unhurried()+3*several/2))
			}
			next[j] = s.tickets[o.id()]
		}
		if i/2%3 > 0 {
			s.present = append(s.present, slices.MaxFunc(due[:], func(a, b outcome) int {
				return a.before.Add(a.delay).Compare(b.before.Add(b.delay))
			}))
			continue
		}
		s.tickets[o.id()] = next[i*len(next)/messages]
		s.cancel(s.d, o)
	}
	s.last(s.delay(s.unhurried() + 2*several))
}

// postponesCancelled postpones what is cancelled, also by a ticket that is newer than that of
// Cancel.
func postponesCancelled(s *schedule) {
	for i, o := range s.put(10, "gone", s.unhurried()) {
		newest := s.tickets[o.id()]
		if i%2 == 0 {
			_ = s.postpone(o, s.later())
			newest, s.tickets[o.id()] = s.tickets[o.id()], newest
		}
		if !s.cancel(s.d, o) {
			continue
		}
		s.tickets[o.id()] = newest
		_ = s.postpone(o, s.delay(s.unhurried()+2*several))
	}
	s.last(s.delay(s.unhurried() + 2*several))
}

func debounces(s *schedule) {
	const times = 1000
	o := s.put(1, "restless", s.unhurried())[0]
	for i := range time.Duration(times) {
		if o = s.postpone(o, s.delay(s.unhurried()+i*several/times)); s.Failed() {
			return
		}
	}
	s.present = append(s.present, o)
	s.arrive()
}

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
		if _, err := s.d.Postpone(s.ctx, delayer.Ticket(text), s.unhurried()); !errors.Is(err, delayer.ErrTicket) {
			s.errorf("Postpone of %q returned %v", abridged(text), err)
		}
	}
	s.arrive()
}

// identified schedules each message by two Delayers, some also with a ctx that may end before the confirm,
// and cancels some.
func identified(s *schedule) {
	const messages = 24
	other := s.open()
	defer func() { _ = other.Close() }()
	wait := s.unhurried() - 10*time.Millisecond // a Due is rounded up, and may not be beyond the longest delay
	began := time.Now()
	due := began.Add(wait)
	want := map[string]string{}
	cancelled := 0
	for i, j := range jobs(messages, "once", func(_ int, id string) job { return to(s.in, id, 0) }) {
		m := j.message()
		m.ID, m.Due = sprintf("%d \x00\xff/ü", i), due
		j.delay = wait
		o := outcome{job: j, before: began, after: time.Now()}
		if i%2 == 0 {
			ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i)*brief/1000)
			_, err := s.d.Schedule(ctx, m)
			cancel()
			if err != nil && !delayer.SafeToRetry(err) && !errors.Is(err, delayer.ErrUnknown) {
				s.errorf("message %s: Schedule returned %v", o.id(), err)
			}
		}
		named, err := other.Ticket(m.ID, due.Add(-1).Truncate(time.Millisecond).Add(time.Microsecond))
		if err != nil {
			s.failf("Ticket of %q returned %v", m.ID, err)
		}
		for _, d := range []delayer.Delayer{s.d, other} {
			ticket, err := d.Schedule(s.ctx, m)
			if err != nil || ticket != named {
				s.failf("message %s: Schedule returned %q and %v, and Ticket %q", o.id(), ticket, err, named)
			}
		}
		s.tickets[o.id()], want[o.id()] = named, m.ID
		if i%3 > 0 {
			s.present = append(s.present, o)
		} else if s.cancel(s.d, o) {
			cancelled++
		}
	}
	s.inTime(cancelled, messages)
	s.await(s.in, s.present)
	for _, a := range s.in.all() {
		e, err := delayer.ParseHeader(a.Headers)
		id, scheduled := want[a.MessageId]
		if late := due.Sub(e.Due); scheduled && (err != nil || e.ID != id || late > 0 || late <= -time.Millisecond) {
			s.errorf("message %s: its header is %q, want the id %q and the due time %v (%v)", a.MessageId, e, id, due, err)
		}
	}
	s.past()
	s.arrive()
}

// past schedules a message whose time has passed.
func (s *schedule) past() {
	s.Helper()
	m := to(s.in, "past", 0).message()
	m.ID, m.Due = "past", time.Now().Add(-time.Hour)
	o := outcome{job: to(s.in, "past", 0), before: time.Now(), after: time.Now()}
	s.tickets[o.id()], o.err = s.d.Schedule(s.ctx, m)
	if o.err != nil {
		s.failf("message %s: Schedule returned %v", o.id(), o.err)
	}
	s.present = append(s.present, o)
	if err := s.d.Cancel(s.ctx, s.tickets[o.id()]); !errors.Is(err, delayer.ErrTooLate) {
		s.errorf("message %s: Cancel returned %v, and its time has passed", o.id(), err)
	}
}

func idsRefused(s *schedule) {
	due, long := time.Now().Add(s.short()), strings.Repeat("x", 41)
	for name, change := range map[string]func(*delayer.Message){
		"an ID of 41 bytes": func(m *delayer.Message) { m.ID = long },
		"Delay and Due":     func(m *delayer.Message) { m.Due, m.Delay = due, s.short() },
		"a Due before 1970": func(m *delayer.Message) { m.Due = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		m := to(s.in, "refused", 0).message()
		change(&m)
		if _, err := s.d.Schedule(s.ctx, m); !errors.Is(err, delayer.ErrInvalid) {
			s.errorf("%s: Schedule returned %v", name, err)
		}
	}
	for id, at := range map[string]time.Time{"": due, long: due, "no time": {}} {
		if _, err := s.d.Ticket(id, at); !errors.Is(err, delayer.ErrInvalid) {
			s.errorf("Ticket of %q and %v returned %v", id, at, err)
		}
	}
	s.arrive()
}
