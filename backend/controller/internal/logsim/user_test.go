package logsim

import (
	"fmt"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/writer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A record is what the account knows of a message.
type record struct {
	n           int
	p           *process // that has published it
	at          incarnation
	called      time.Duration
	order       int           // among those of its publisher; 0: it has none
	handed      time.Duration // by the broker to a leader, the first time
	storedAt    time.Duration // in the log, the last time
	delay       time.Duration
	size        int
	to          int // its destination
	ticket      bool
	own         bool // the clock of its publisher counts too
	even        bool // it is due at an even second, as others
	repeats     int  // how often it is scheduled once more, with the same id and due time
	repeated    bool
	written     int // how often it is stored, or may be
	confirmed   bool
	confirmedAt time.Duration

	due       brokertime.Due // the first
	tickets   []*pass
	cancelled bool          // a Cancel returned nil
	perhaps   bool          // one is not certain
	asking    int           // changes that are not answered; their process may be killed
	notBefore time.Duration // by the broker's clock, had it not been set
	drift     time.Duration // of the clocks that counted until the broker's time was known
	noticed   time.Duration // what steps were noticed before it was published, as forward
	last      time.Duration // true time of the latest due time that it has, or may have
	perhapsAt time.Duration // of the latest that was asked for,
	unknownAt time.Duration // and of the latest of those that may be, for a Postpone that is unknown
	deliverd  []delivered
	stranger  bool // somebody took it away
	unsettled bool // it was published when some had not noticed that the broker's clock was set
}

// A pass is a ticket for a message at one of its due times.
type pass struct {
	due brokertime.Due
	at  time.Duration // true time
}

// A delivered is one arrival of a message at its destination.
type delivered struct {
	at, choice time.Duration
	forward    time.Duration // by which the broker's clock was set forward since it was published, or back while some had not noticed
	own        bool
	asleep     bool
}

func (r *record) id() string          { return fmt.Sprintf("m%d", r.n) }
func (r *record) destination() string { return string(rune('A' + r.to)) }

// submit has a record written to the log. then is told what became of it, once.
func (p *process) submit(r *writer.Record, then func(Outcome)) {
	p.pending[r] = then
	if p.w.mutant.unbounded {
		p.sendAll(p.pub, r)
		return
	}
	p.writer.Submit(p.mono(), r)
	p.pump(p.pub, nil, Stored)
}

// pump sends the next bundle if one is wanted, and tells what became of records.
func (p *process) pump(c *conn, settled []*writer.Record, o Outcome) {
	if p.pub != c {
		return
	}
	id, next := p.writer.Reserve(p.mono())
	for _, r := range settled {
		p.settle(r, o)
	}
	if id > 0 {
		p.out.send(p.w.between(0, 200*time.Microsecond), func() { p.send(c, id) })
	}
	if next > 0 {
		p.soon(max(next-p.mono(), 0), func() { p.pump(c, nil, Stored) })
	}
}

// send writes a bundle once its connection is not blocked. The broker says that it is a while after
// an alarm has begun.
func (p *process) send(c *conn, id uint64) {
	if p.pub != c {
		return
	}
	if p.w.broker.alarm && p.w.chance(0.9) {
		p.soon(p.w.between(0, 200*time.Millisecond), func() { p.send(c, id) })
		return
	}
	b := p.writer.Take(id)
	if b != nil {
		it := &item{bundle: b, by: incarnation{p, p.number}}
		p.w.account.sent(it)
		c.publish(into(p.w.broker.named[leader.Log], it), func(o Outcome) {
			if p.pub == c {
				p.pump(c, p.writer.Confirmed(id), o)
			}
		})
	}
	p.pump(c, nil, Stored)
}

func (p *process) settle(r *writer.Record, o Outcome) {
	then := p.pending[r]
	delete(p.pending, r)
	then(o)
}

// publish is Publish, or with a ticket Schedule.
func (p *process) publish(r *record, ticket bool) {
	now, w := p.now(), p.w
	if ticket && !now.Known || p.pub == nil {
		return
	}
	if r.even && now.Known {
		const even = 2000
		due := now.Clock.Latest.Add(r.delay).UnixMilli()
		r.delay += time.Duration(even-due%even) * time.Millisecond
	}
	r.p, r.at, r.called = p, incarnation{p, p.number}, w.now
	r.notBefore, r.noticed = w.clock.passed(w.now)+r.delay, w.clock.noticed()
	r.unsettled = w.now < w.clock.stepped
	r.last = w.clock.after(r.delay)
	rec := bundle.Record{ID: r.id(), To: r.destination(), Ticket: ticket, Payload: zeros[:r.size]}
	rec.Due, rec.Left, rec.Own = leader.Enter(now, r.delay)
	r.due, r.own = rec.Due, rec.Own != 0
	w.account.order++
	r.order = w.account.order
	p.schedule(r, rec)
}

// schedule writes a message, perhaps again.
func (p *process) schedule(r *record, rec bundle.Record) {
	if p.pub == nil {
		return
	}
	p.trace("publish", "%s: due %s, delay %v", rec.ID, clockOf(rec.Due), r.delay)
	written := &writer.Record{Record: rec}
	r.written++
	if p.w.chance(p.w.plan.impatient) {
		c := p.pub
		p.soon(p.w.short(0, time.Second), func() {
			if p.pub == c && p.writer.Withdraw(written) {
				p.pump(c, []*writer.Record{written}, Refused)
			}
		})
	}
	p.submit(written, func(o Outcome) {
		p.trace("settled", "%s: %d", rec.ID, o)
		if o == Refused {
			r.written--
			r.order = 0 // if it is written again, it is later than others
		}
		if o == Stored && !r.confirmed {
			r.confirmed, r.confirmedAt = true, p.w.now
			if rec.Ticket {
				r.tickets = append(r.tickets, &pass{due: rec.Due, at: r.last})
			}
		}
		if rec.Ticket && r.repeats > 0 && !r.cancelled && !r.perhaps && len(r.tickets) < 2 {
			r.repeats--
			rec.Own = 0
			p.soon(p.w.short(0, 10*time.Second), func() {
				if due := rec.Due.Time(); p.now().Known && p.now().Clock.Latest.Before(due) && r.asking == 0 && !r.cancelled && !r.perhaps {
					r.repeated = true
					p.schedule(r, rec)
				}
			})
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
)

// cancel is Cancel.
func (p *process) cancel(r *record, t *pass) {
	r.asking++
	over := p.w.setBack(t) || p.w.now < p.w.split
	p.change(bundle.Record{Kind: bundle.Cancel, ID: r.id(), Due: t.due}, func(f fate) {
		r.asking--
		over = over || p.w.now < p.w.clock.stepped || r.unsettled
		p.trace("cancel", "%s: %v", r.id(), f)
		if f == done && !over {
			p.w.account.cancelled(r)
		}
		r.perhaps = r.perhaps || f == unknown || f == done && over
	})
}

// postpone is Postpone. If it is done, the last of the record's tickets is the new one.
func (p *process) postpone(r *record, t *pass, delay time.Duration) {
	now := p.now()
	next, _, _ := leader.Enter(now, delay)
	if !now.Known || next < t.due {
		return
	}
	next = max(next, t.due+1)
	called, last := p.w.now, p.w.clock.after(delay)
	r.asking++
	r.perhapsAt = max(r.perhapsAt, last)
	over := p.w.setBack(t) || p.w.now < p.w.split
	p.change(bundle.Record{Kind: bundle.Postpone, ID: r.id(), Due: t.due, Next: next}, func(f fate) {
		r.asking--
		over = over || p.w.now < p.w.clock.stepped || r.unsettled
		p.trace("postpone", "%s: %v", r.id(), f)
		if over && f == done {
			f = unknown
		}
		if f == done {
			p.w.account.Postponed++
			r.notBefore = max(r.notBefore, p.w.clock.passed(called)+delay)
			r.tickets = append(r.tickets, &pass{due: next, at: last})
		}
		if f == done || f == unknown {
			r.last = max(r.last, last)
		}
		if f == unknown {
			r.unknownAt = max(r.unknownAt, last)
		}
	})
}

// setBack reports whether a ticket is for a due time that is over, and the broker's clock was set
// back since. Then it is in the future again, and a change is accepted that comes to nothing. So it
// may be if the clock was set, and who writes the change, or who decides, has not noticed that, or
// had not when it delivered the message early. See docs/reliability.md.
func (w *world) setBack(t *pass) bool { return w.plan.steps > 0 && w.now > t.at-leader.AcceptedBefore }

// change writes a change.
func (p *process) change(rec bundle.Record, then func(fate)) {
	switch now := p.told(p.w.mutant.accepts); {
	case !now.Known || p.pub == nil:
		then(notSent)
		return
	case !leader.InTime(now, rec.Due):
		p.w.account.TooLate++
		then(tooLate)
		return
	}
	p.trace("change", "%s at %s", rec.ID, clockOf(rec.Due))
	p.submit(&writer.Record{Record: rec}, func(o Outcome) {
		switch {
		case o == Refused:
			then(notSent)
		case o == Stored && (leader.InTime(p.told(p.w.mutant.accepts), rec.Due) || p.w.mutant.confirmed):
			then(done)
		default:
			then(unknown)
		}
	})
}

func (f fate) String() string {
	return [...]string{"done", "too late", "not sent", "unknown"}[f]
}
