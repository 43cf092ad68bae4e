package simulator

import (
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A record is what the account knows of a message.
type record struct {
	n           int
	p           *process // that has published it
	at          incarnation
	called      time.Duration
	given       time.Duration // by the broker to a leader, the first time
	delay       time.Duration
	size        int
	to          int // its destination
	confirmed   bool
	confirmedAt time.Duration

	tickets   []pass
	cancelled bool          // a Cancel returned nil
	perhaps   bool          // one is not certain
	asking    int           // changes that are not answered; their process may be killed
	notBefore time.Duration // by the broker's clock, had it not been set
	drift     time.Duration // of the clocks that counted until the broker's time was known
	noticed   time.Duration // the broker's clock was set forward by so much before it was published
	last      time.Duration // true time of the latest due time that it has, or may have
	perhapsAt time.Duration // of the latest that was asked for
	deliverd  []delivered
	stranger  bool // somebody took it away
	payload   amqp091.Delivery
}

// A pass is a ticket for a message at one of its due times.
type pass struct {
	due brokertime.Due
	at  time.Duration // true time
}

// A delivered is one arrival of a message at its destination.
type delivered struct {
	at, choice time.Duration
	forward    time.Duration // by which the broker's clock was set forward since it was published
	own        bool
	asleep     bool
}

func (r *record) id() string          { return fmt.Sprintf("m%d", r.n) }
func (r *record) destination() string { return string(rune('A' + r.to)) }

// publish is Publish, or with a ticket Schedule. then is told whether it is stored, once.
func (p *process) publish(r *record, ticket bool, then func(wheel.Outcome)) {
	now, w := p.now(), p.w
	r.p, r.at, r.called = p, incarnation{p, p.number}, w.now
	r.notBefore, r.noticed = w.clock.passed(w.now)+r.delay, w.clock.noticed()
	r.last = w.clock.after(r.delay)
	if ticket && !now.Known || p.pub == nil {
		then(wheel.Refused)
		return
	}
	it := &item{of: r, by: r.at, msg: wheel.Message{ID: r.id(), Size: r.size, To: r.destination(), Ticket: ticket}}
	it.msg.OwnDue = now.Mono + r.delay
	p.enter(r, it, then)
}

// enter writes a message to its slot, or where the broker's clock is unknown to the intake.
func (p *process) enter(r *record, it *item, then func(wheel.Outcome)) {
	now, w := p.now(), p.w
	if p.pub == nil {
		then(wheel.Refused)
		return
	}
	left := it.msg.OwnDue - now.Mono
	to, within, turn := wheel.Intake, always, wheel.Turn{}
	if now.Known {
		if left > wheel.OwnFor {
			it.by = incarnation{}
		}
		turn, it.msg.Due, within = w.wheel.Enter(now, left)
		to = w.wheel.Slot(turn)
	} else {
		it.msg.Left = left
	}
	p.trace("publish", "%s: %s, delay %v", name(to), it, r.delay)
	by := now.Mono + within
	p.write(p.pub, within, into(w.broker.named[to], it), func(o wheel.Outcome) {
		switch {
		case o == wheel.Accepted && p.mono() > by && w.wheel.Late(p.now(), turn):
			p.trace("late", "%s: it may be where nobody looks", it)
			then(wheel.Unknown)
		case o == wheel.Accepted:
			p.trace("confirmed", "%s", it)
			r.confirmed, r.confirmedAt = true, p.w.now
			if it.msg.Ticket {
				r.tickets = append(r.tickets, pass{it.msg.Due, r.last})
			}
			then(o)
		case o == wheel.Refused:
			p.enter(r, it, then)
		case o == wheel.Unknown:
			p.trace("unknown", "%s", it)
			then(o)
		}
	})
}

// A fate is what became of a change.
type fate int

const (
	done fate = iota
	tooLate
	notSent
	unknown // it may take effect or not
	earlier // it was to be postponed to an earlier time
)

// cancel is Cancel.
func (p *process) cancel(r *record, t pass, then func(fate)) {
	r.asking++
	over := p.w.setBack(t)
	p.change(r, t, 0, p.w.wheel.Request(t.due), notSent, func(f fate) {
		r.asking--
		over = over || p.w.now < p.w.clock.stepped
		p.trace("cancel", "%s: %v", r.id(), f)
		if f == done && !over {
			p.w.account.cancelled(r)
		}
		r.perhaps = r.perhaps || f == unknown || f == done && over
		then(f)
	})
}

// postpone is Postpone. If it is done, the last of the record's tickets is the new one.
func (p *process) postpone(r *record, t pass, delay time.Duration, then func(fate)) {
	now := p.now()
	if !now.Known {
		then(notSent)
		return
	}
	next, ok := wheel.PostponedTo(now, t.due, delay)
	if !ok {
		then(earlier)
		return
	}
	called, last := p.w.now, p.w.clock.after(delay)
	r.asking++
	r.perhapsAt = max(r.perhapsAt, last)
	over := p.w.setBack(t)
	p.change(r, t, next, p.w.wheel.Request(t.due), notSent, func(f fate) {
		r.asking--
		over = over || p.w.now < p.w.clock.stepped
		p.trace("postpone", "%s: %v", r.id(), f)
		if over && f == done {
			f = unknown
		}
		if f == done {
			p.w.account.Postponed++
			r.notBefore = max(r.notBefore, p.w.clock.passed(called)+delay)
			r.tickets = append(r.tickets, pass{next, last})
		}
		if f == done || f == unknown {
			r.last = max(r.last, last)
		}
		then(f)
	})
}

// setBack reports whether a ticket is for a due time that is over, and the broker's clock was set
// back since. Then it is in the future again, and a change is accepted that comes to nothing. So it
// may be if the clock was set forward, and who writes the change has not noticed that. See
// docs/clocks.md.
func (w *world) setBack(t pass) bool { return w.plan.steps > 0 && w.now > t.at-wheel.AcceptedBefore }

// change writes a change until it is certain what becomes of it. before is what is known of earlier
// attempts.
func (p *process) change(r *record, t pass, next brokertime.Due, q *wheel.Request, before fate, then func(fate)) {
	now := p.asks()
	if !now.Known || p.pub == nil {
		then(before)
		return
	}
	to, within, inTime := q.Begin(now)
	if !inTime {
		if before == notSent {
			before = tooLate
		}
		then(before)
		return
	}
	p.writeChange(r, t, next, to, within, func(o wheel.Outcome) {
		f, again := q.Ended(p.asks(), o, false)
		if lie := p.w.mutant.confirmed; lie != nil && o == wheel.Accepted {
			f, again = lie(f), false
		}
		is := [...]fate{wheel.Certain: done, wheel.Uncertain: unknown, wheel.Unsent: notSent}[f]
		switch {
		case !again:
			then(is)
		case o == wheel.Unknown:
			p.soon(500*time.Millisecond, func() { p.change(r, t, next, q, is, then) })
		default:
			p.change(r, t, next, q, is, then)
		}
	})
}

// asks is what somebody knows who asks whether a change is in time.
func (p *process) asks() wheel.Now {
	if lie := p.w.mutant.accepts; lie != nil {
		return lie(p.now())
	}
	return p.now()
}

// writeChange writes a change once.
func (p *process) writeChange(r *record, t pass, next brokertime.Due, to wheel.Turn, within time.Duration, then func(wheel.Outcome)) {
	it := &item{of: r, msg: wheel.Message{Kind: wheel.Change, ID: r.id(), Size: 150, Due: t.due, Next: next}}
	s := p.w.wheel.Slot(to)
	p.trace("change", "%s: %s", name(s), it)
	if p.pub == nil {
		then(wheel.Unknown)
		return
	}
	p.write(p.pub, within, into(p.w.broker.named[s], it), then)
}

func (f fate) String() string {
	return [...]string{"done", "too late", "not sent", "unknown", "earlier"}[f]
}
