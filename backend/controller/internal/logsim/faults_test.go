package logsim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A plan is what a run is made of.
type plan struct {
	length       time.Duration // for so long there are users and faults
	processes    int
	destinations int
	messages     int
	tickets      float64 // of the messages
	faults       int
	strangers    bool
	steps        int
	steppedBy    time.Duration // by how much all steps may make something late
	latency      time.Duration // of the slowest connection
	hiccup       time.Duration // by how much a timer fires late
	large        float64       // of the messages
	prefetch     int           // of the log and of slots; 0: as usual
	budget       int           // of the memory of a leader; 0: any
	even         float64       // of the messages: they are due at even seconds
	bursts       float64       // of the times at which something is published
	repeats      float64       // of those with tickets: they are scheduled several times
	impatient    float64       // of the messages: their publishers withdraw them if they can
	delays       []delays
	together     time.Duration // when all messages are due; 0: each has a delay of its own
	spread       time.Duration // within so long
}

// delays are a range from which delays are taken, so often.
type delays struct {
	weight      int
	least, most time.Duration
}

const day = 24 * time.Hour

var (
	shortDelays = []delays{
		{200, 100 * time.Millisecond, 3 * time.Second}, {400, 3 * time.Second, 20 * time.Second}, {300, 20 * time.Second, 160 * time.Second},
		{100, 140 * time.Second, 5 * time.Minute},
	}
	mixedDelays = append([]delays{ // years are rare: each 36 hours of them all slots are looked at
		{100, 5 * time.Minute, 80 * time.Minute}, {40, 70 * time.Minute, 28 * time.Hour}, {29, day, 20 * day}, {1, 20 * day, 700 * day},
	}, shortDelays...)
)

func (w *world) choosePlan() {
	p := plan{
		length: w.between(time.Minute, 4*time.Minute), processes: 1 + w.rand.IntN(3), destinations: 1 + w.rand.IntN(3),
		messages: 20 + w.rand.IntN(150), tickets: w.rand.Float64(), faults: w.rand.IntN(16),
		latency: w.short(200*time.Microsecond, 50*time.Millisecond), hiccup: w.short(0, 20*time.Millisecond),
		delays: shortDelays,
	}
	switch w.rand.IntN(8) {
	case 0:
		p.faults = 0
	case 1, 2:
		p.delays = mixedDelays
	case 3:
		p.steps, p.length = 1+w.rand.IntN(2), 11*time.Minute
	case 5:
		p.strangers, p.faults = true, 4
	case 4:
		p.large, p.messages, p.prefetch = 0.2, 400, 8<<w.rand.IntN(2)
		p.budget = w.rand.IntN(2) * 600_000
		if w.chance(0.5) { // many changes, and much that waits for the mark behind them
			p.tickets, p.together, p.spread = 1, p.length+w.between(10*time.Second, 3*time.Minute), 4*time.Second
			if w.chance(0.5) { // a slot of minutes is drained for long, and much of it is held
				p.spread, p.messages = time.Minute, 800
			}
		}
	}
	if w.chance(0.5) {
		p.even = w.rand.Float64()
	}
	if w.chance(0.5) {
		p.bursts = w.rand.Float64()
	}
	if w.chance(0.3) {
		p.repeats = w.rand.Float64()
	}
	if w.chance(0.3) {
		p.impatient = w.rand.Float64()
	}
	w.plan = p
}

// usualPrefetch is a quarter of what leaders have, since a run has few messages.
const usualPrefetch = leader.LogPrefetch / 4

// memory is the bound of what a leader holds: the bundles that it may have in hand.
func (p *plan) memory() int64 {
	const slots = 8 // that are read at a time
	return (1 + slots) * int64(cmp.Or(p.prefetch, usualPrefetch)) * max(bundle.MaxSize, p.largest())
}

func (p *plan) largest() int64 {
	if p.large > 0 {
		return int64(len(zeros))
	}
	return 2000
}

var zeros [200_000]byte // of which payloads are made

func (w *world) delay() time.Duration {
	sum := 0
	for _, d := range w.plan.delays {
		sum += d.weight
	}
	n := w.rand.IntN(sum)
	for _, d := range w.plan.delays {
		if n -= d.weight; n < 0 {
			return w.between(d.least, d.most)
		}
	}
	panic("not reached")
}

// users plans what they do.
func (w *world) users() {
	for n := 0; n < w.plan.messages; {
		at, group := w.between(0, w.plan.length), []*record{}
		most := 1
		if w.chance(w.plan.bursts) {
			most = 2 + w.rand.IntN(10)
		}
		delay := w.delay()
		for range most {
			r := &record{n: n, delay: delay, to: w.rand.IntN(w.plan.destinations), size: 200 + w.rand.IntN(1800)}
			if w.chance(w.plan.large) {
				r.size = int(w.plan.largest())
			}
			if w.plan.together > 0 {
				r.delay = w.plan.together - at + w.between(0, w.plan.spread)
			}
			r.even, r.ticket = w.chance(w.plan.even), w.chance(w.plan.tickets)
			w.account.records = append(w.account.records, r)
			w.account.byID[r.id()] = r
			group = append(group, r)
			n++
		}
		w.at(at, func(p *process) {
			for _, r := range group {
				if r.ticket && w.chance(w.plan.repeats) {
					r.repeats = 1 + w.rand.IntN(3)
				}
				p.publish(r, r.ticket)
				if r.ticket {
					w.meddle(r)
				}
			}
		})
	}
}

// at has a process that is at work do something.
func (w *world) at(t time.Duration, do func(p *process)) {
	w.after(t-w.now, func() {
		if p := w.processes[w.rand.IntN(len(w.processes))]; p.alive && !p.stopped {
			do(p)
		}
	})
}

// meddle cancels and postpones, often in the last moment.
func (w *world) meddle(r *record) {
	for range w.rand.IntN(3) {
		at := w.now + w.between(0, r.delay)
		if w.chance(0.6) {
			at = w.now + max(0, r.delay-w.between(0, leader.AcceptedBefore+time.Second))
		}
		w.at(at, func(p *process) {
			if len(r.tickets) == 0 {
				return
			}
			t := r.tickets[len(r.tickets)-1]
			if w.chance(0.2) {
				t = r.tickets[w.rand.IntN(len(r.tickets))]
			}
			if w.chance(0.5) {
				p.cancel(r, t)
				return
			}
			p.postpone(r, t, w.delay())
			w.meddle(r)
		})
	}
}

// trouble plans what breaks.
func (w *world) trouble() {
	for range w.plan.faults {
		w.after(w.between(0, w.plan.length), w.breakSomething)
	}
	for i := range w.plan.steps {
		at := time.Minute + time.Duration(i)*6*time.Minute + w.between(0, time.Minute)
		by := w.short(50*time.Millisecond, time.Hour)
		w.plan.steppedBy += by + noticed
		if w.chance(0.5) {
			by = -by
		}
		w.after(at, func() { w.setClock(by) })
	}
}

// noticed is how long it takes until a process notices that the broker's clock was set.
const noticed = 25 * time.Second

// unsettled is for how long after a step some may not have noticed it: they were stopped meanwhile.
const unsettled = 2 * time.Minute

func (w *world) setClock(by time.Duration) {
	excuse := time.Minute
	if by > 0 { // a process that has not noticed writes where only a look at all slots finds it
		excuse = unsettled + noticed
		w.clock.forward += by
	}
	w.clock.settled, w.clock.stepped = w.clock.forward-by.Abs(), w.now+unsettled
	w.account.fault(excuse, -1, false, "the broker's clock is set by %v", by)
	w.clock.offset += by
	for _, p := range w.processes {
		w.after(w.between(0, noticed), func() { p.notice(by) })
	}
}

// breakSomething breaks one thing for a while.
func (w *world) breakSomething() {
	p, b := w.processes[w.rand.IntN(len(w.processes))], w.broker
	for _, other := range w.processes {
		if other.tenure != nil && other.tenure.leader.Leads() && w.chance(0.5) {
			p = other
		}
	}
	if w.plan.strangers && w.chance(0.5) {
		w.meddleWithQueue()
		return
	}
	switch w.rand.IntN(17) {
	case 0:
		w.kill(p)
	case 16:
		if p.tenure != nil {
			p.tenure.end("it hands over")
		}
	case 1:
		w.stop(p, w.short(time.Second, 3*time.Minute))
	case 2, 13:
		w.stop(p, w.between(500*time.Millisecond, 6*time.Second))
	case 14, 15: // the broker closes one of its connections, or both
		w.stop(p, w.between(silentLeast, silentMost))
	case 3:
		w.cut(p, w.short(time.Second, 2*time.Minute))
	case 4:
		w.lose(p)
	case 5:
		w.crash(w.between(time.Second, 20*time.Second))
	case 6:
		w.during(w.short(time.Second, 6*time.Minute), -1, stalls, "alarm", func(on bool) {
			b.alarm = on
			for _, c := range slices.Clone(b.conns) {
				c.up.pump()
			}
		})
	case 7:
		slow := w.short(10*time.Millisecond, 3*time.Second)
		w.during(w.short(time.Second, time.Minute), -1, !stalls, fmt.Sprintf("disks take up to %v", slow), func(on bool) {
			b.slow = 0
			if on {
				b.slow = slow
			}
		})
	case 8:
		w.stick(w.short(time.Second, 3*time.Minute))
	case 9:
		to := w.rand.IntN(len(b.dests))
		w.during(w.short(time.Second, 2*time.Minute), to, stalls, "a destination refuses", func(on bool) { b.dests[to].refuses = on })
	case 10:
		to := w.rand.IntN(len(b.dests))
		w.during(w.short(time.Second, 2*time.Minute), to, stalls, "a destination is silent", func(on bool) {
			b.dests[to].silent = on
			b.dests[to].log.pump()
		})
	case 11:
		p.wide, p.wideUntil = w.between(0, 2*time.Second), w.now+5*time.Second
		w.account.fault(5*time.Second, -1, false, "the wall clock of %s is set", p.name)
	case 12:
		d := w.between(0, 10*time.Second)
		w.account.fault(d+time.Second, -1, false, "%s does not know the time", p.name)
		p.learnClock(d)
	}
}

// stalls: destinations, or queues, may not answer for so long that they are left alone for a while.
const stalls = true

// during breaks something for a while.
func (w *world) during(d time.Duration, to int, stalls bool, what string, broken func(bool)) {
	w.account.fault(d+time.Second, to, stalls, "%s", what)
	broken(true)
	w.after(d, func() {
		w.trace("fault", "repairs", "%s", what)
		broken(false)
	})
}

func (w *world) kill(p *process) {
	if !p.alive {
		return
	}
	d := w.between(100*time.Millisecond, 20*time.Second)
	w.account.hurt(p, d+3*time.Second, false, "is killed")
	p.kill()
	w.after(d, p.start)
}

// A broker waits for so long until it closes a connection that is silent, and so does a client.
const silentLeast, silentMost = 20 * time.Second, 30 * time.Second

func (w *world) stop(p *process, d time.Duration) {
	if !p.alive || p.stopped {
		return
	}
	number, since := p.number, w.now
	w.account.hurt(p, d+5*time.Second, false, "is stopped")
	p.stopped = true
	for _, c := range p.conns() {
		w.watch(c, func() bool { return p.number == number && p.stopped && since+d > w.now })
	}
	w.after(d, func() {
		if p.number == number {
			p.wake(d)
		}
	})
}

func (p *process) conns() (all []*conn) {
	if p.pub != nil {
		all = append(all, p.pub)
	}
	if p.tenure != nil {
		all = append(all, p.tenure.conn)
	}
	return all
}

// wake goes on: what fires first is by chance.
func (p *process) wake(after time.Duration) {
	p.trace("wake", "")
	p.stopped = false
	if after > silentLeast {
		p.woke = p.w.now
	}
	if after > 50*time.Second {
		p.knownFrom = max(p.knownFrom, p.w.now+p.w.between(0, time.Second))
	}
	p.nextTick = p.w.now + p.w.short(0, 5*time.Millisecond)
	wakes := []func(){p.out.pump}
	for _, c := range p.conns() {
		wakes = append(wakes, c.back.pump)
	}
	for _, do := range wakes {
		p.w.after(p.w.short(0, 5*time.Millisecond), do)
	}
}

// watch closes a connection that is silent for too long, unless the broker does not read from it.
func (w *world) watch(c *conn, silent func() bool) {
	w.after(w.between(silentLeast, silentMost), func() {
		switch {
		case !silent() || !c.open:
		case w.broker.alarm:
			w.watch(c, silent)
		default:
			w.trace("broker", "closes", "a silent connection of %s", c.p.name)
			c.close()
		}
	})
}

// cut cuts a process off, or one of its connections.
func (w *world) cut(p *process, d time.Duration) {
	conns := p.conns()
	if !p.alive || p.cut || len(conns) == 0 {
		return
	}
	w.account.hurt(p, d+5*time.Second, true, "is cut off")
	p.cut = true
	if w.chance(0.3) {
		p.cut, conns = false, conns[w.rand.IntN(len(conns)):][:1]
	}
	for _, c := range conns {
		c.cut = true
		cut := func() bool { return c.cut }
		w.watch(c, cut)
		p.soon(w.between(silentLeast, silentMost), func() {
			if c.cut {
				c.leave()
			}
		})
	}
	w.after(d, func() {
		p.trace("joined", "")
		p.cut = false
		for _, c := range conns {
			c.cut = false
			c.up.pump()
			c.back.pump()
		}
	})
}

// lose closes a connection.
func (w *world) lose(p *process) {
	if conns := p.conns(); len(conns) > 0 {
		w.account.fault(3*time.Second, -1, false, "%s loses a connection", p.name)
		conns[w.rand.IntN(len(conns))].close()
	}
}

func (w *world) crash(d time.Duration) {
	if w.broker.down {
		return
	}
	w.account.fault(d+5*time.Second, -1, false, "the broker crashes")
	w.broker.crash()
	w.after(d, func() {
		w.trace("broker", "is up", "")
		w.broker.down = false
		for _, q := range w.broker.queues {
			q.log.pump()
		}
		for _, d := range w.broker.dests {
			d.log.pump()
		}
		w.broker.lasts.pump()
	})
}

// stick takes the majority from some queues.
func (w *world) stick(d time.Duration) {
	var stuck []*queue
	part := w.rand.Float64()
	for _, q := range w.broker.queues {
		if w.chance(part * part) {
			stuck = append(stuck, q)
		}
	}
	w.during(d, -1, stalls, fmt.Sprintf("%d queues have no majority", len(stuck)), func(on bool) {
		for _, q := range stuck {
			q.stuck = on
			q.log.pump()
		}
	})
}

// ledByTwo is for how long two may lead if the log is deleted and declared again: who consumed it
// before waits for a mark, which it writes once a minute.
const ledByTwo = 80 * time.Second

// meddleWithQueue is what a stranger does to a queue. Nobody can promise that what was in it comes.
func (w *world) meddleWithQueue() {
	q := w.broker.queues[w.rand.IntN(len(w.broker.queues))]
	for range 10 { // rather one in which something is
		if other := w.broker.queues[w.rand.IntN(len(w.broker.queues))]; len(q.items)-q.returned+len(q.consumers) == 0 {
			q = other
		}
	}
	switch w.rand.IntN(3) {
	case 0:
		w.account.fault(time.Second, -1, false, "%s is purged", name(q.name))
		q.lose(q.items...)
		q.items, q.returned = nil, 0
	case 1:
		w.account.fault(15*time.Minute, -1, false, "%s is deleted and declared again", name(q.name))
		if q.name == leader.Log {
			w.split = w.now + ledByTwo
		}
		q.lose(q.items...)
		q.items, q.returned = nil, 0
		for _, c := range w.broker.conns {
			for _, ch := range c.channels {
				if ch.queue == q && !ch.gone {
					for _, u := range ch.unacked {
						q.lose(u.item)
					}
					ch.gone, ch.unacked = true, nil
				}
			}
		}
		q.consumers = nil
	case 2:
		if len(q.consumers) == 0 {
			q = w.broker.named[leader.Log]
		}
		w.account.fault(0, -1, false, "a foreign message comes to %s", name(q.name))
		it := &item{}
		q.store(it, func() {
			w.account.foreign = append(w.account.foreign, it)
			w.account.Foreign++
		})
	}
}

// lose notes what a stranger has taken away.
func (q *queue) lose(all ...*item) {
	for _, it := range all {
		if it.bundle == nil {
			it.kept = true // nobody can
			continue
		}
		for _, r := range it.bundle.Records {
			if of := q.b.w.account.byID[r.ID]; of != nil {
				of.stranger = true
			}
		}
	}
}

// simulate runs a simulation.
func simulate(o options) result {
	w := newWorld(o)
	w.users()
	w.trouble()
	for end := w.end(); w.now < end && len(w.account.problems) == 0; end = w.end() {
		w.runUntil(end)
	}
	for range 3 { // a mark may be under way
		if len(w.account.problems) == 0 && !w.rests() {
			w.runUntil(w.now + 5*time.Second)
		}
	}
	if len(w.account.problems) == 0 {
		w.account.rest()
		w.account.close()
	}
	w.account.Simulated = w.now
	return result{w.account.problems, w.account.stats}
}

// rests reports whether leaders rest.
func (w *world) rests() bool {
	for _, p := range w.processes {
		if p.tenure == nil || p.tenure.leader.Leads() && !p.tenure.leader.Rests() {
			return false
		}
	}
	return true
}

// end is when everything that is planned by now has come, and what is remembered of it is
// forgotten.
func (w *world) end() time.Duration {
	end := w.plan.length
	for _, r := range w.account.records {
		end = max(end, r.last, r.perhapsAt)
	}
	for _, f := range w.account.faults {
		end = max(end, f.until)
	}
	lap := time.Duration(w.rings[0].Slots) * w.rings[0].Width // what was stored late may come when its slot serves again
	if w.plan.strangers {                                     // there may have been two leaders: what one wrote the other looks for in a while
		lap += 10 * time.Minute
	}
	return end + w.plan.steppedBy + inTimeStalled + lap + 3*time.Minute
}
