package logsim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/writer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// An incarnation is a process from its start until it is killed.
type incarnation struct {
	p      *process
	number int
}

// A process has users who publish, and is a candidate for the lead.
type process struct {
	w       *world
	name    string
	number  int // of its incarnation
	alive   bool
	stopped bool          // by SIGSTOP
	woke    time.Duration // when it last went on after it had stood still for long
	cut     bool          // from the broker
	ppm     int64
	pub     *conn
	writer  *writer.Writer
	pending map[*writer.Record]func(Outcome)
	heap    []*writer.Record // of a publisher that gathers without bound
	out     link             // what it has decided to publish and not written yet
	tenure  *tenure
	tenures int
	renewed time.Duration // when a tenure last ended for nothing but that
	quarter int           // how often its prefetch was quartered

	nextTick time.Duration

	// What it knows of the broker's clock.
	knownFrom time.Duration // since when, in this stretch
	lostSince time.Duration // when it was last connected, while it is not
	share     float64       // of the uncertainty that lies before the truth
	offset    time.Duration // what it has noticed of the steps
	wide      time.Duration // how much wider its reading is since its wall clock was set
	wideUntil time.Duration
}

func newProcess(w *world, i int) *process {
	p := &process{w: w, name: string(rune('a' + i)), ppm: w.rand.Int64N(201) - 100}
	p.out = link{w: w, held: func() bool { return p.stopped }}
	w.processes = append(w.processes, p)
	w.after(w.between(0, time.Second), p.start)
	return p
}

func (p *process) start() {
	p.number++
	p.alive = true
	p.out.dead, p.out.queue = false, nil
	p.learnClock(p.w.between(0, time.Second))
	p.trace("start", "number %d", p.number)
	p.connect()
}

// kill ends the process. What it had written is still on its way.
func (p *process) kill() {
	p.trace("kill", "")
	p.alive, p.stopped = false, false
	p.out.dead, p.out.queue = true, nil
	p.number++
	if p.tenure != nil {
		p.tenure.conn.drop()
		p.tenure.over, p.tenure = true, nil
	}
	if p.pub != nil {
		p.pub.drop()
		p.pub = nil
	}
}

func (p *process) trace(event, format string, args ...any) {
	if p.w.Trace != nil {
		p.w.trace(p.name, event, format, args...)
	}
}

// soon goes on after a while, if the process lives then, and once it is not stopped.
func (p *process) soon(d time.Duration, do func()) {
	number := p.number
	p.w.after(d, func() {
		switch {
		case p.number != number:
		case p.stopped:
			p.soon(100*time.Millisecond, do)
		default:
			do()
		}
	})
}

// connect opens what is missing, and tries again later.
func (p *process) connect() {
	b := p.w.broker
	if !b.down && !p.cut && p.pub == nil {
		p.pub = b.connect(p, false, p.unplugged)
		p.writer = writer.New(fmt.Sprintf("%s%d.%d", p.name, p.number, p.w.count))
		p.pending = map[*writer.Record]func(Outcome){}
		p.learnClock(p.w.short(0, 2*time.Second))
	}
	if !b.down && !p.cut && p.tenure == nil {
		p.begin()
	}
	if p.tenure == nil || p.pub == nil {
		p.soon(p.w.between(100*time.Millisecond, 3*time.Second), p.connect)
	}
}

// unplugged is told that the publishing connection is lost. What was not confirmed may be stored.
func (p *process) unplugged() {
	p.trace("lost", "the publishing connection")
	c := p.pub
	taken, waiting := p.writer.End()
	for _, r := range taken {
		p.settle(r, Unknown)
	}
	for _, r := range waiting {
		p.settle(r, Refused)
	}
	if p.pub == c {
		p.pub, p.lostSince = nil, p.w.now
	}
	p.soon(p.w.between(100*time.Millisecond, 3*time.Second), p.connect)
}

// What time it is.

// mono drifts from the broker's clock while time is not skipped. A machine that ticks never sees
// what would come together in days: it would take that for a step of the clock.
func (p *process) mono() time.Duration {
	skipped := p.w.account.Skipped
	drift := (p.w.now-skipped)*time.Duration(p.ppm) + skipped*time.Duration(p.w.clock.ppm)
	return p.w.now + drift/1_000_000
}

// learnClock says that the broker's clock is known anew, soon, to a second.
func (p *process) learnClock(in time.Duration) {
	p.knownFrom, p.share = p.w.now+in, p.w.rand.Float64()
}

const fine = 3 * time.Millisecond // how well a clock becomes known

func (p *process) now() leader.Now {
	w := p.w
	n := leader.Now{Mono: p.mono()}
	age := w.now - p.knownFrom
	if age < 0 || p.pub == nil && w.now-p.lostSince > time.Minute {
		return n
	}
	width := max(time.Second>>min(age/time.Second, 20), fine) + (age%(5*time.Second))/2500
	if w.now < p.wideUntil {
		width += p.wide
	}
	if width > time.Second {
		return n
	}
	seen := w.clock.passed(w.now) + p.offset - time.Duration(p.share*float64(width))
	n.Clock = brokertime.Reading{Earliest: w.clock.begin.Add(seen), Latest: w.clock.begin.Add(seen + width)}
	n.Known = true
	return n
}

// told is now, or what a mutant makes of it.
func (p *process) told(lie func(leader.Now) leader.Now) leader.Now {
	if lie != nil {
		return lie(p.now())
	}
	return p.now()
}

// notice says that a step of the broker's clock is seen.
func (p *process) notice(by time.Duration) {
	if p.stopped {
		p.w.after(time.Second, func() { p.notice(by) })
		return
	}
	p.offset += by
	p.trace("notice", "the broker's clock was set by %v", by)
}

// ticks reports whether the leader is to be called.
func (p *process) ticks() bool { return p.tenure != nil && !p.tenure.over && p.alive && !p.stopped }

func (p *process) tick() { p.tenure.feed(leader.Tick{}) }

// write publishes, a moment later: the process may be stopped before.
func (p *process) write(c *conn, store func(answer func(Outcome)), done func(Outcome)) {
	number := p.number
	p.out.send(p.w.between(0, 200*time.Microsecond), func() {
		if p.number == number {
			c.publish(store, done)
		}
	})
}

func into(q *queue, it *item) func(func(Outcome)) {
	return func(answer func(Outcome)) {
		q.store(it, func() {
			q.b.w.account.stored(it)
			if q.b.w.Trace != nil {
				q.b.w.trace("broker", "store", "%s: %s", name(q.name), it)
			}
			answer(Stored)
		})
	}
}

// A tenure is a leader, or a candidate, and what it consumes with: it is its shell.
type tenure struct {
	*process
	name     string
	leader   *leader.Leader
	conn     *conn
	channels map[leader.Queue]*channel
	flying   map[leader.Queue]int // writes that are not confirmed, and releases
	asked    map[leader.Queue]bool
	counted  brokertime.Due // what waits, by its clock
	over     bool
}

func (p *process) begin() {
	p.tenures++
	t := &tenure{process: p, name: fmt.Sprintf("%s%d.%d", p.name, p.number, p.tenures), channels: map[leader.Queue]*channel{}, flying: map[leader.Queue]int{}, asked: map[leader.Queue]bool{}}
	p.tenure, p.nextTick = t, p.w.now
	t.conn = p.w.broker.connect(p, true, func() { t.end("the connection is lost") })
	p.trace("begin", "%s", t.name)
	cfg := leader.Config{Rings: p.w.rings, Tenure: t.name, Memory: p.w.plan.budget}
	cfg.Prefetch = max(cmp.Or(p.w.plan.prefetch, usualPrefetch)>>(2*p.quarter), leader.LeastPrefetch)
	if change := p.w.mutant.config; change != nil {
		change(&cfg)
	}
	t.leader = leader.New(cfg, p.told(p.w.mutant.now))
	t.consume(leader.Log, cfg.Prefetch)
}

// end ends a tenure: another one begins later.
func (t *tenure) end(why string) {
	if t.over || t.tenure != t {
		return
	}
	t.trace("end", "%s: %s", t.name, why)
	if t.over = !t.w.mutant.eager; !t.over {
		t.goOn()
	}
	switch why {
	case leader.Renews:
		t.renewed = t.w.now
	case leader.Overfull:
		t.quarter++
		fallthrough
	default:
		t.w.account.ended(t.process, why)
	}
	if t.tenure == t {
		t.tenure = nil
	}
	if t.conn.alive {
		t.conn.drop()
	}
	t.soon(t.w.between(100*time.Millisecond, 3*time.Second), t.connect)
}

// feed tells the leader what has happened, and does what it says.
func (t *tenure) feed(e leader.Event) {
	if t.over || !t.alive {
		return
	}
	if lie := t.w.mutant.events; lie != nil {
		if e = lie(t, e); e == nil {
			return
		}
	}
	todo, next := t.leader.Step(t.told(t.w.mutant.now), e)
	todo = slices.Clone(todo)
	t.w.account.weigh(t)
	if t.tenure == t {
		t.nextTick = t.w.now + max(next-t.mono(), 0) + t.w.short(0, t.w.plan.hiccup)
	}
	for _, e := range todo {
		if lie := t.w.mutant.effects; lie != nil {
			for _, e := range lie(t, e) {
				t.do(e)
			}
			continue
		}
		t.do(e)
	}
}

func (t *tenure) consume(q leader.Queue, prefetch int) {
	ch := t.w.broker.newChannel(t.conn, q)
	t.channels[q] = ch
	t.conn.toBroker(func() { ch.consume(prefetch) })
}

func (t *tenure) do(e leader.Effect) {
	switch e := e.(type) {
	case leader.Consume:
		t.trace("consume", "%s, %d", name(e.Queue), e.Prefetch)
		t.consume(e.Queue, e.Prefetch)
	case leader.Release:
		t.trace("release", "%s", name(e.Queue))
		ch := t.channels[e.Queue]
		delete(t.channels, e.Queue)
		ch.closed = true
		t.flying[e.Queue]++
		ch.release(func() {
			t.flying[e.Queue]--
			t.feed(leader.Released(e))
		})
	case leader.Ack:
		t.trace("ack", "%s tag %d %v", name(e.Queue), e.Tag, e.Multiple)
		if ch := t.channels[e.Queue]; ch != nil {
			t.conn.toBroker(func() { ch.ack(e.Tag, e.Multiple) })
		}
	case leader.Write:
		it := &item{bundle: e.Bundle, by: incarnation{t.process, t.number}, byLeader: true}
		if t.w.Trace != nil {
			t.trace("write", "%s: %s", name(e.To), it)
		}
		if !t.asked[e.To] && e.To != leader.Log {
			t.asked[e.To] = true
			mark := &item{bundle: &bundle.Bundle{Writer: "ask", InSlot: true, Records: []bundle.Record{{Kind: bundle.Mark}}}, byLeader: true}
			t.write(t.conn, into(t.w.broker.named[e.To], mark), func(Outcome) {})
		}
		t.flying[e.To]++
		t.write(t.conn, into(t.w.broker.named[e.To], it), func(o Outcome) {
			t.flying[e.To]--
			t.feed(leader.Written{ID: e.ID, Stored: o == Stored})
		})
	case leader.Deliver:
		if raw, is := e.Item.Raw.(*item); is {
			keep := func(answer func(Outcome)) { raw.kept = true; answer(Stored) }
			t.write(t.conn, keep, func(o Outcome) { t.feed(leader.Sent{Item: e.Item, Stored: o == Stored}) })
			return
		}
		r := t.w.account.byID[e.Item.ID]
		it := &item{of: r, to: e.Item.To, choice: t.w.now}
		it.own = e.Item.Own != 0 && e.Item.Own <= t.mono() && r.at == incarnation{t.process, t.number}
		it.asleep = !t.conn.open && t.conn.closed < t.woke
		t.trace("deliver", "%s due %s", e.Item.ID, clockOf(e.Item.Due))
		t.write(t.conn, t.w.broker.deliver(it), func(o Outcome) { t.feed(leader.Sent{Item: e.Item, Stored: o == Stored}) })
	case leader.Snapshot:
		t.w.account.known(t, e.Counts)
		t.write(t.conn, t.w.broker.keep(e.Counts), func(Outcome) { t.feed(leader.Kept{}) })
	case leader.Recall:
		if (t.w.Seed+uint64(t.tenures))%16 == 0 {
			return // the queue of snapshots does not answer
		}
		t.conn.toBroker(func() {
			last, bundles := t.w.broker.known()
			t.conn.toClient(func() { t.feed(leader.Recalled{Counts: last, Bundles: bundles}) })
		})
	case leader.Surrender:
		t.end(e.Why)
	}
}

// receive hands a bundle to the leader.
func (p *process) receive(c *consumer, tag uint64, it *item, again bool) {
	ch, t := c.channel, p.tenure
	if ch.closed || t == nil || t.over || t.conn != ch.conn {
		return
	}
	if p.w.Trace != nil {
		p.trace("receive", "%s tag %d: %s", name(ch.queue.name), tag, it)
	}
	p.w.account.received(it)
	d := leader.Delivered{Queue: ch.queue.name, Tag: tag, Again: again, Bundle: it.bundle, Own: it.by == incarnation{p, p.number}}
	if it.bundle == nil {
		d.Err, d.Raw = errForeign, it
	}
	t.feed(d)
}

var errForeign = errors.New("foreign")

var names = map[leader.Queue]string{leader.Log: "log"}

func init() {
	for _, q := range leader.Default().Slots() {
		names[q] = fmt.Sprintf("%s.%d", leader.Default()[q.Ring].Name, q.Index)
	}
}

func name(q leader.Queue) string { return names[q] }

func (it *item) String() string {
	if it.bundle == nil {
		return "foreign"
	}
	text := []string{fmt.Sprintf("%s.%d of", it.bundle.Writer, it.bundle.Number)}
	for _, r := range it.bundle.Records {
		switch r.Kind {
		case bundle.Message:
			text = append(text, fmt.Sprintf("message %s due %s", r.ID, clockOf(r.Due)))
		case bundle.Cancel:
			text = append(text, fmt.Sprintf("cancel %s at %s", r.ID, clockOf(r.Due)))
		case bundle.Postpone:
			text = append(text, fmt.Sprintf("postpone %s from %s to %s", r.ID, clockOf(r.Due), clockOf(r.Next)))
		default:
			text = append(text, "mark")
		}
	}
	return strings.Join(text, ", ")
}

func clockOf(d brokertime.Due) string { return d.Time().UTC().Format("02T15:04:05.000") }
