package simulator

import (
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
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
	set     time.Duration // by how much its wall clock was set
	pub     *conn
	out     link // what it has decided to publish and not written yet
	tenure  *tenure
	tenures int

	nextTick time.Duration
	full     bool // it reads nothing that it consumes: its memory is full

	// What it knows of the broker's clock.
	knownFrom  time.Duration // since when, in this stretch
	lostSince  time.Duration // when it was last connected, while it is not
	share      float64       // of the uncertainty that lies before the truth
	offset     time.Duration // what it has noticed of the steps
	ahead      time.Duration // the offset before a step back
	aheadUntil time.Duration
	wide       time.Duration // how much wider its reading is since its wall clock was set
	wideUntil  time.Duration
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
	p.alive, p.stopped, p.full = false, false, false
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
		p.pub = b.connect(p, true, p.unplugged)
		p.learnClock(p.w.short(0, 2*time.Second))
	}
	if !b.down && !p.cut && p.pub != nil && p.tenure == nil {
		p.begin()
	}
	if p.tenure == nil {
		p.soon(p.w.between(100*time.Millisecond, 3*time.Second), p.connect)
	}
}

// unplugged is told that the publishing connection is lost.
func (p *process) unplugged() {
	p.trace("lost", "the publishing connection")
	p.pub, p.lostSince = nil, p.w.now
	if p.tenure != nil {
		p.tenure.end("the publishing connection is lost")
	}
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

func (p *process) now() wheel.Now {
	w := p.w
	n := wheel.Now{Mono: p.mono(), Wall: w.clock.begin.Add(w.now + p.set)}
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
	unset := w.clock.unset()
	early := time.Duration(p.share * float64(width))
	r := brokertime.Reading{Earliest: unset.Add(p.offset - early), Latest: unset.Add(p.offset + width - early)}
	r.From = r.Latest.Add(fine)
	if w.now < p.aheadUntil && p.ahead > p.offset {
		r.From = unset.Add(p.ahead + width - early + fine)
	}
	n.Clock, n.Known = r, true
	return n
}

// sees is what a machine is told.
func (p *process) sees() wheel.Now {
	if lie := p.w.mutant.now; lie != nil {
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
	if by < 0 {
		if p.w.now >= p.aheadUntil || p.offset > p.ahead {
			p.ahead = p.offset
		}
		p.aheadUntil = p.w.now + brokertime.NoticedWithin
	}
	p.offset += by
	p.trace("notice", "the broker's clock was set by %v", by)
}

// ticks reports whether the machine is to be called.
func (p *process) ticks() bool { return p.tenure != nil && !p.tenure.over && p.alive && !p.stopped }

func (p *process) tick() {
	t := p.tenure
	for len(t.endings) > 0 && t.endings[0].until <= p.w.now {
		t.ended(t.endings[0])
	}
	for len(t.counts) > 0 && t.counts[0].until <= p.w.now {
		t.counted(t.counts[0], 0, 0, false)
	}
	if p.tenure != t {
		return
	}
	next := t.machine.Tick(p.sees())
	p.weigh()
	if p.tenure == t {
		p.nextTick = p.w.now + max(next-p.mono(), 0) + p.w.short(0, p.w.plan.hiccup)
	}
}

// weigh stops reading while the memory is full.
func (p *process) weigh() {
	was := p.full
	if p.full = !p.w.mutant.hungry && p.tenure != nil && !p.tenure.over && p.tenure.machine.Full(); was && !p.full && p.tenure != nil {
		p.tenure.conn.back.pump()
	}
}

// tickSoon has what an event has changed be looked at.
func (p *process) tickSoon() {
	p.weigh()
	p.nextTick = min(p.nextTick, p.w.now+p.w.between(0, time.Millisecond))
}

// A tenure is a machine and what it consumes with: it is the machine's shell.
type tenure struct {
	*process
	name     string
	machine  *wheel.Machine
	conn     *conn
	pub      *conn
	channels map[wheel.Slot]*channel
	tasks    map[wheel.Slot][]func() // the first is running
	endings  []*ending
	counts   []*counting
	over     bool
}

// An ending is a channel that is being closed. For that is waited a while.
type ending struct {
	wheel.Slot
	until time.Duration
}

func (p *process) begin() {
	p.tenures++
	t := &tenure{process: p, name: fmt.Sprintf("%s%d.%d", p.name, p.number, p.tenures), pub: p.pub, channels: map[wheel.Slot]*channel{}, tasks: map[wheel.Slot][]func(){}}
	p.tenure, p.nextTick = t, p.w.now
	t.conn = p.w.broker.connect(p, false, func() { t.end("the consuming connection is lost") })
	p.trace("begin", "%s", t.name)
	cfg, shell := wheel.Config{Wheel: p.w.wheel, Tenure: t.name, Budget: p.w.plan.budget, Fewer: p.w.plan.fewer}, wheel.Shell(t)
	if change := p.w.mutant.config; change != nil {
		change(&cfg)
	}
	if wrap := p.w.mutant.shell; wrap != nil {
		shell = wrap(t)
	}
	t.machine = wheel.New(cfg, shell, p.sees())
}

// end ends a tenure whose connection is lost.
func (t *tenure) end(why string) {
	t.stop(why)
	t.leave()
}

// stop has nothing more be begun.
func (t *tenure) stop(why string) {
	if t.over {
		return
	}
	t.trace("end", "%s: %s", t.name, why)
	t.over, t.counts = true, nil
	t.weigh()
	t.w.account.ended(t.process, why)
}

// close acknowledges what is done, and gives back the rest.
func (t *tenure) close() {
	if t.tenure != t {
		return
	}
	t.w.account.lost = append(t.w.account.lost, t.w.now)
	t.machine.Flush(t.sees())
	left := 0
	for _, s := range append(t.w.wheel.Slots(), wheel.Intake) {
		if t.channels[s] != nil {
			left++
			t.release(s, func() {
				if left--; left == 0 {
					t.leave()
				}
			})
		}
	}
	t.soon(releasedWithin, t.leave)
}

// leave ends a tenure: another one begins later.
func (t *tenure) leave() {
	if t.tenure != t {
		return
	}
	t.tenure = nil
	if t.conn.alive {
		t.conn.drop()
	}
	t.soon(t.w.between(100*time.Millisecond, 3*time.Second), t.connect)
}

// receive hands a message to the machine.
func (p *process) receive(c *consumer, tag uint64, it *item, again bool) {
	ch := c.channel
	t := p.tenure
	if ch.closed || t == nil || t.over || t.conn != ch.conn {
		return
	}
	msg := it.msg
	msg.Body, msg.Again, msg.Consumer = &delivery{it, ch, tag}, again, c.number
	msg.Own = it.by == incarnation{p, p.number} && msg.OwnDue != 0
	p.trace("receive", "%s tag %d: %s", name(ch.queue.slot), tag, it)
	if it.of != nil && it.msg.Due == 0 { // it was published without the broker's time, and waits from now on
		it.of.last = max(it.of.last, p.w.clock.after(it.msg.Left))
	}
	if see := p.w.mutant.received; see != nil {
		see(t, ch, tag, &msg)
	}
	t.machine.Delivered(p.sees(), ch.queue.slot, tag, &msg)
	t.w.account.weigh(t)
	p.tickSoon()
}

// A delivery is an item that a channel has got.
type delivery struct {
	*item
	*channel
	tag uint64
}

// write publishes, a moment later: the process may be stopped before. within is by its own clock.
func (p *process) write(c *conn, within time.Duration, store func(answer func(wheel.Outcome)), done func(wheel.Outcome)) {
	number, by := p.number, p.mono()+within
	p.out.send(p.w.between(0, 200*time.Microsecond), func() {
		switch {
		case p.number != number:
		case p.mono() > by:
			done(wheel.Refused)
		default:
			c.publish(store, done)
		}
	})
}

// stamped is what is published of a message.
func (p *process) stamped(m *wheel.Message, of *record) *item {
	it := &item{of: of, msg: wheel.Message{Kind: m.Kind, ID: m.ID, Size: m.Size, To: m.To, Next: m.Next, Mark: m.Mark}}
	if of != nil && m.Body.(*delivery).msg.Due == 0 {
		of.drift = (p.w.now - of.called) / drifts
	}
	it.msg.Due, it.msg.Ticket, it.msg.Then, it.msg.OwnDue = m.Due, m.Ticket, m.Then, m.OwnDue
	if m.Own {
		it.by = incarnation{p, p.number}
	}
	return it
}

func into(q *queue, it *item) func(func(wheel.Outcome)) {
	return func(answer func(wheel.Outcome)) {
		q.store(it, func() {
			q.b.w.trace("broker", "store", "%s: %s", name(q.slot), it)
			answer(wheel.Accepted)
		})
	}
}

const always = time.Duration(1 << 61)

// stored tells the machine what became of a message.
func (t *tenure) stored(m *wheel.Message) func(wheel.Outcome) {
	return func(o wheel.Outcome) {
		if t.tenure == t { // also while it is being closed
			t.machine.Stored(t.sees(), m, o)
			t.tickSoon()
		}
	}
}

// Consume implements [wheel.Shell].
func (t *tenure) Consume(s wheel.Slot, prefetch int) {
	if t.over {
		return
	}
	t.trace("consume", "%s, %d", name(s), prefetch)
	ch := t.channels[s]
	if ch == nil {
		ch = t.w.broker.newChannel(t.conn, s)
		t.channels[s] = ch
	}
	t.task(s, func() {
		t.conn.toBroker(func() { ch.consume(prefetch) })
		t.next(s)
	})
}

// task does something with a queue, one thing after the other.
func (t *tenure) task(s wheel.Slot, do func()) {
	t.tasks[s] = append(t.tasks[s], do)
	if len(t.tasks[s]) == 1 {
		do()
	}
}

func (t *tenure) next(s wheel.Slot) {
	if t.tasks[s] = t.tasks[s][1:]; len(t.tasks[s]) > 0 {
		t.tasks[s][0]()
	}
}

// Release implements [wheel.Shell].
func (t *tenure) Release(s wheel.Slot) {
	if t.over {
		return
	}
	t.trace("release", "%s", name(s))
	t.release(s, func() {})
}

// releasedWithin is how long it is waited for a queue that does not answer.
const releasedWithin = 5 * time.Second

func (t *tenure) release(s wheel.Slot, then func()) {
	ch := t.channels[s]
	delete(t.channels, s)
	ch.closed = true
	t.task(s, func() {
		e := &ending{s, t.w.now + releasedWithin}
		t.endings = append(t.endings, e)
		ch.release(func() { t.ended(e); then() })
	})
}

func (t *tenure) ended(e *ending) {
	if i := slices.Index(t.endings, e); i >= 0 {
		t.endings = slices.Delete(t.endings, i, i+1)
		t.next(e.Slot)
	}
}

// Ack implements [wheel.Shell].
func (t *tenure) Ack(s wheel.Slot, tag uint64, multiple bool) {
	t.trace("ack", "%s tag %d %v", name(s), tag, multiple)
	if ch := t.channels[s]; ch != nil {
		t.conn.toBroker(func() { ch.ack(tag, multiple) })
	}
}

// Count implements [wheel.Shell].
func (t *tenure) Count(s wheel.Slot) {
	if t.over {
		return
	}
	q := t.w.broker.named[s]
	c := &counting{s, t.w.now + 10*time.Second}
	t.counts = append(t.counts, c)
	t.task(s, func() {
		t.conn.toBroker(func() {
			q.log.send(0, func() {
				ready, consumers := q.count()
				t.conn.toClient(func() { t.counted(c, ready, consumers, true) })
			})
		})
		t.next(s)
	})
}

// A counting is a question that is not answered yet.
type counting struct {
	wheel.Slot
	until time.Duration
}

func (t *tenure) counted(c *counting, ready, consumers int, ok bool) {
	if i := slices.Index(t.counts, c); i >= 0 && !t.over {
		t.counts = slices.Delete(t.counts, i, i+1)
		t.trace("counted", "%s: %d, %d consumers, %v", name(c.Slot), ready, consumers, ok)
		t.machine.Counted(t.sees(), c.Slot, ready, consumers, ok)
		t.tickSoon()
	}
}

// Verify implements [wheel.Shell]: the broker answers on the connection that consumes.
func (t *tenure) Verify() {
	if t.over {
		return
	}
	t.trace("verify", "")
	t.conn.toBroker(func() {
		t.conn.toClient(func() {
			if !t.over {
				t.machine.Verified(t.sees())
				t.tickSoon()
			}
		})
	})
}

// Move implements [wheel.Shell].
func (t *tenure) Move(m *wheel.Message, to wheel.Turn, within time.Duration) {
	if t.over {
		return
	}
	it := t.stamped(m, m.Body.(*delivery).of)
	s := t.w.wheel.Slot(to)
	t.trace("move", "%s within %v: %s", name(s), within, it)
	t.write(t.pub, within, into(t.w.broker.named[s], it), t.stored(m))
}

// Keep implements [wheel.Shell].
func (t *tenure) Keep(m *wheel.Message) {
	if t.over {
		return
	}
	keep := func(answer func(wheel.Outcome)) { t.w.broker.kept++; answer(wheel.Accepted) }
	t.write(t.pub, always, keep, t.stored(m))
}

// Deliver implements [wheel.Shell].
func (t *tenure) Deliver(m *wheel.Message) { t.deliver(m, t.stored(m)) }

func (t *tenure) deliver(m *wheel.Message, done func(wheel.Outcome)) {
	if t.over {
		return
	}
	it := t.stamped(m, m.Body.(*delivery).of)
	it.choice, it.own = t.w.now, m.Own && m.OwnDue <= t.mono()
	it.asleep = !t.conn.open && t.conn.closed < t.woke
	t.trace("deliver", "%s", it)
	t.write(t.pub, always, t.w.broker.deliver(it), done)
}

// Mark implements [wheel.Shell].
func (t *tenure) Mark(s wheel.Slot, id wheel.MarkID) {
	if t.over {
		return
	}
	it := &item{msg: wheel.Message{Kind: wheel.Mark, Mark: id, Size: 100}}
	t.trace("mark", "%s: %d", name(s), id.Number)
	t.write(t.pub, always, into(t.w.broker.named[s], it), func(wheel.Outcome) {})
}

// Summon implements [wheel.Shell].
func (t *tenure) Summon() {
	if t.over {
		return
	}
	it := &item{msg: wheel.Message{Kind: wheel.Summons, Size: 100}}
	t.trace("summon", "")
	wrote := t.sees().Mono
	t.write(t.pub, always, into(t.w.broker.named[wheel.Intake], it), func(o wheel.Outcome) {
		if o == wheel.Accepted && t.tenure == t {
			t.machine.Summoned(t.sees(), wrote)
			t.tickSoon()
		}
	})
}

// Surrender implements [wheel.Shell]. What is being published may take a moment.
func (t *tenure) Surrender(why string) {
	t.stop(why)
	t.soon(t.w.short(0, time.Second), t.close)
}

var names = map[wheel.Slot]string{wheel.Intake: "intake"}

func init() {
	for _, s := range wheel.Default().Slots() {
		names[s] = fmt.Sprintf("%s.%d", wheel.Default()[s.Level].Name, s.Index)
	}
}

func name(s wheel.Slot) string { return names[s] }

func (it *item) String() string {
	m := it.msg
	switch m.Kind {
	case wheel.Mark:
		return fmt.Sprintf("mark %s.%d", m.Mark.Tenure, m.Mark.Number)
	case wheel.Summons:
		return "summons"
	case wheel.Change:
		if m.Next == 0 {
			return fmt.Sprintf("drop %s at %s", m.ID, clockOf(m.Due))
		}
		return fmt.Sprintf("postpone %s from %s to %s", m.ID, clockOf(m.Due), clockOf(m.Next))
	case wheel.Foreign:
		return "foreign"
	case wheel.User:
	}
	return fmt.Sprintf("message %s due %s", m.ID, clockOf(m.Due))
}

func clockOf(d brokertime.Due) string { return d.Time().UTC().Format("02T15:04:05.000") }
