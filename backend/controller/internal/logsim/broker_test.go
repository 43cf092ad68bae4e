package logsim

import (
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A link carries packets in their order. They arrive when nothing holds them.
type link struct {
	w       *world
	held    func() bool
	queue   []packet
	last    time.Duration
	dead    bool
	planned bool   // an event for its first packet:
	arrive  func() // this
}

type packet struct {
	at      time.Duration
	do      func()
	certain bool // also if the broker crashes
}

func (l *link) send(latency time.Duration, do func()) {
	if l.dead {
		return
	}
	l.last = max(l.last, l.w.now+latency)
	l.queue = append(l.queue, packet{at: l.last, do: do})
	if len(l.queue) == 1 {
		l.plan()
	}
}

// plan has the first packet arrive. If it is held then, it waits until it is not, and pump is called.
func (l *link) plan() {
	if l.planned {
		return
	}
	if l.arrive == nil {
		l.arrive = func() {
			l.planned = false
			l.pump()
		}
	}
	l.planned = true
	l.w.after(l.queue[0].at-l.w.now, l.arrive)
}

func (l *link) pump() {
	for len(l.queue) > 0 && l.queue[0].at <= l.w.now && !l.dead && !l.held() {
		do := l.queue[0].do
		l.queue = slices.Delete(l.queue, 0, 1)
		do()
	}
	if len(l.queue) > 0 && l.queue[0].at > l.w.now {
		l.plan()
	}
}

// An item is a message as the broker has it: a bundle, or what is delivered.
type item struct {
	bundle   *bundle.Bundle // nil: it is delivered, or nobody's
	by       incarnation    // which has written it
	again    bool           // it was delivered before
	byLeader bool
	kept     bool // it is in the unroutable queue

	of     *record       // what is delivered,
	to     string        // where,
	choice time.Duration // and when that was decided,
	own    bool          // by the clock of the process that has published it
	asleep bool          // by one that had lost its connection while it stood still
}

// A broker has quorum queues and destinations.
type broker struct {
	w      *world
	down   bool
	alarm  bool          // it does not read from who publishes
	slow   time.Duration // how long disks may take
	queues []*queue
	named  map[leader.Queue]*queue
	dests  []*destination
	conns  []*conn
	last   *bundle.Counts // the last snapshot,
	lasts  link           // in a queue that keeps one
}

func newBroker(w *world) *broker {
	b := &broker{w: w, named: map[leader.Queue]*queue{}}
	b.lasts = link{w: w, held: func() bool { return b.down }}
	for _, s := range append(w.rings.Slots(), leader.Log) {
		q := &queue{b: b, name: s}
		q.log = link{w: w, held: func() bool { return q.stuck || b.down }}
		b.queues, b.named[s] = append(b.queues, q), q
	}
	for range w.plan.destinations {
		d := &destination{}
		d.log = link{w: w, held: func() bool { return d.silent || b.down }}
		b.dests = append(b.dests, d)
	}
	return b
}

// A destination stores what is delivered, unless it refuses.
type destination struct {
	refuses, silent bool
	log             link
}

// deliver stores a message at its destination.
func (b *broker) deliver(it *item) func(answer func(Outcome)) {
	return func(answer func(Outcome)) {
		d := b.dests[it.to[0]-'A']
		if d.refuses {
			answer(Refused)
			return
		}
		d.log.send(b.disk(), func() {
			b.w.account.delivered(it)
			answer(Stored)
		})
	}
}

// keep stores a snapshot in place of the last one.
func (b *broker) keep(c *bundle.Counts) func(answer func(Outcome)) {
	return func(answer func(Outcome)) {
		b.lasts.send(b.disk(), func() { b.last = c; answer(Stored) })
	}
}

// known is the last snapshot, and how many bundles are in each slot that has a majority.
func (b *broker) known() (last *bundle.Counts, bundles map[leader.Queue]int) {
	if b.last != nil {
		var err error
		if last, err = bundle.ReadCounts(b.last.Bytes()); err != nil {
			b.w.account.problem("a snapshot cannot be read: %v", err)
		}
	}
	bundles = map[leader.Queue]int{}
	for _, q := range b.queues {
		if len(q.log.queue) == 0 {
			bundles[q.name] = len(q.items)
		}
	}
	return last, bundles
}

// disk is how long it takes to store something.
func (b *broker) disk() time.Duration {
	return b.w.short(100*time.Microsecond, 4*time.Millisecond) + b.w.short(0, b.slow)
}

// A queue is a quorum queue with a single active consumer, the first of the list. Whatever is done
// to it goes through its log.
type queue struct {
	b         *broker
	name      leader.Queue
	log       link
	stuck     bool    // it has no majority
	items     []*item // that no channel has
	returned  int     // so many of these have been given back, and are first
	consumers []*consumer
	cancelled []*consumer // some of these have messages
}

// A channel consumes one queue. At the broker it has messages that are not acknowledged; at its
// client it belongs to a visit of a tenure.
type channel struct {
	conn    *conn
	queue   *queue
	gone    bool // at the broker
	closed  bool // at the client
	tag     uint64
	unacked []unacked
	acks    link
}

type unacked struct {
	tag uint64
	*item
	*consumer
}

type consumer struct {
	*channel
	prefetch, has int
}

func (b *broker) newChannel(c *conn, s leader.Queue) *channel {
	ch := &channel{conn: c, queue: b.named[s]}
	ch.acks = link{w: b.w, held: func() bool { return b.down }}
	c.channels = append(c.channels, ch)
	return ch
}

// store adds a message at the end.
func (q *queue) store(it *item, then func()) {
	q.log.send(q.b.disk(), func() {
		q.items = append(q.items, it)
		then()
		q.serve()
	})
}

// consume adds a consumer. If the channel has one, that is cancelled: what it has stays.
func (ch *channel) consume(prefetch int) {
	q := ch.queue
	q.log.send(q.b.disk(), func() {
		if ch.gone {
			return
		}
		q.cancel(ch)
		q.consumers = append(q.consumers, &consumer{channel: ch, prefetch: prefetch})
		q.serve()
	})
}

// cancel ends a consumer. Who follows the active one is not certain: with RabbitMQ 3.10 who has
// waited for the longest, with 4.0 another.
func (q *queue) cancel(ch *channel) {
	active := len(q.consumers) > 0 && q.consumers[0].channel == ch
	defer func() {
		if n := len(q.consumers); active && n > 1 {
			next := q.b.w.rand.IntN(n)
			q.consumers[0], q.consumers[next] = q.consumers[next], q.consumers[0]
		}
	}()
	q.consumers = slices.DeleteFunc(q.consumers, func(c *consumer) bool {
		if c.channel == ch {
			q.cancelled = append(q.cancelled, c)
		}
		return c.channel == ch
	})
}

// serve delivers to the active consumer.
func (q *queue) serve() {
	for len(q.consumers) > 0 && q.consumers[0].has < q.consumers[0].prefetch && len(q.items) > 0 {
		c, it := q.consumers[0], q.items[0]
		q.items, q.returned = slices.Delete(q.items, 0, 1), max(0, q.returned-1)
		c.tag++
		c.has++
		tag, ch, again := c.tag, c.channel, it.again
		q.b.w.account.given(it)
		ch.unacked = append(ch.unacked, unacked{tag, it, c})
		ch.conn.toClient(func() { ch.conn.p.receive(c, tag, it, again) })
	}
}

// ack acknowledges. It takes effect after a while, or never if the channel is lost before.
func (ch *channel) ack(tag uint64, multiple bool) {
	b := ch.queue.b
	ch.acks.send(b.w.short(0, 20*time.Millisecond)+b.w.short(0, b.slow), func() {
		ch.queue.log.send(b.disk(), func() { ch.acked(tag, multiple) })
	})
}

func (ch *channel) acked(tag uint64, multiple bool) {
	q := ch.queue
	known := false
	ch.unacked = slices.DeleteFunc(ch.unacked, func(u unacked) bool {
		known = known || u.tag == tag
		done := u.tag == tag || multiple && u.tag < tag
		if done {
			u.has--
		}
		return done
	})
	if !known && !ch.gone && !q.b.w.mutant.careless {
		ch.conn.p.w.account.problem("precondition failed: unknown delivery tag %d of %v", tag, q.name)
	}
	q.serve()
}

// release ends a channel as the shell does: it closes it once all is stored that was acknowledged
// before. Then the client is told.
func (ch *channel) release(then func()) {
	c, b := ch.conn, ch.conn.b
	c.toBroker(func() {
		if ch.gone { // its queue was deleted
			c.toClient(then)
			return
		}
		ch.acks.send(0, func() {
			ch.queue.log.send(b.disk(), func() {
				c.toClient(func() {
					c.toBroker(func() {
						ch.end()
						c.toClient(then)
					})
				})
			})
		})
	})
}

// end ends a channel: what was not acknowledged goes back, and the next consumer is active.
func (ch *channel) end() {
	if ch.gone {
		return
	}
	ch.gone, ch.acks.dead = true, true
	q := ch.queue
	q.log.send(q.b.w.short(0, 50*time.Millisecond), func() { q.forget(ch) })
	q.log.queue[len(q.log.queue)-1].certain = true
}

func (q *queue) forget(ch *channel) {
	q.cancel(ch)
	for _, u := range ch.unacked { // behind what others have given back, also if that came later
		u.has--
		u.again = true
		q.items = slices.Insert(q.items, q.returned, u.item)
		q.returned++
	}
	ch.unacked = nil
	q.serve()
}

// A conn is a connection of a process.
type conn struct {
	b        *broker
	p        *process
	tenure   bool // it is a leader's, or a candidate's
	latency  time.Duration
	up, back link
	cut      bool
	open     bool          // at the broker,
	closed   time.Duration // until when
	alive    bool          // at the client
	channels []*channel
	pending  []*publishing
	lost     func() // the client has noticed that it is closed
}

// A publishing waits for its confirm.
type publishing struct {
	done func(Outcome)
}

func (b *broker) connect(p *process, tenure bool, lost func()) *conn {
	c := &conn{b: b, p: p, tenure: tenure, open: true, alive: true, lost: lost}
	c.latency = b.w.short(50*time.Microsecond, b.w.plan.latency)
	c.up = link{w: b.w, held: func() bool { return c.cut || b.alarm }}
	c.back = link{w: b.w, held: func() bool { return c.cut || p.stopped }}
	b.conns = append(b.conns, c)
	return c
}

func (c *conn) toBroker(do func()) {
	c.up.send(c.latency+c.b.w.short(0, c.latency), do)
}

func (c *conn) toClient(do func()) {
	c.back.send(c.latency+c.b.w.short(0, c.latency), do)
}

// publish publishes. done is told what became of it, once.
func (c *conn) publish(store func(answer func(Outcome)), done func(Outcome)) {
	if !c.alive {
		done(Unknown)
		return
	}
	pub := &publishing{done}
	c.pending = append(c.pending, pub)
	answer := func(o Outcome) { c.toClient(func() { c.answer(pub, o) }) }
	c.toBroker(func() { store(answer) })
}

// answer settles a publishing.
func (c *conn) answer(pub *publishing, o Outcome) {
	if i := slices.Index(c.pending, pub); i >= 0 {
		c.pending = slices.Delete(c.pending, i, i+1)
		pub.done(o)
	}
}

// close ends a connection at the broker. The client hears of it after all that was on its way.
func (c *conn) close() {
	if !c.open {
		return
	}
	c.open, c.up.dead, c.closed = false, true, c.b.w.now
	if c.tenure {
		c.b.w.account.lost = append(c.b.w.account.lost, c.b.w.now)
	}
	c.b.conns = slices.DeleteFunc(c.b.conns, func(other *conn) bool { return other == c })
	for _, ch := range c.channels {
		ch.end()
	}
	c.toClient(c.leave)
}

// leave ends a connection at the client, which knows no more than that.
func (c *conn) leave() {
	if !c.alive {
		return
	}
	pending := c.pending
	c.drop()
	c.lost()
	for _, pub := range pending {
		pub.done(Unknown)
	}
}

// drop ends a connection whose client has nobody left who could be told.
func (c *conn) drop() {
	c.alive, c.back.dead, c.pending = false, true, nil
	c.toBroker(c.close)
}

// crash ends all at once. What was not confirmed may be stored or not, and so may acknowledgements.
func (b *broker) crash() {
	b.down = true
	for _, c := range slices.Clone(b.conns) {
		c.close()
	}
	for _, q := range b.queues {
		b.survive(&q.log)
	}
	for _, d := range b.dests {
		b.survive(&d.log)
	}
	b.survive(&b.lasts)
}

// survive does some of what was under way. What follows a lost write of the same log is lost too.
func (b *broker) survive(log *link) {
	under := log.queue
	log.queue = nil
	survives := b.w.rand.IntN(len(under) + 1)
	for i, p := range under {
		if i < survives || p.certain {
			p.do()
		}
	}
}

// An Outcome is what became of something that was published.
type Outcome int

// The outcomes.
const (
	Stored  Outcome = iota
	Refused         // it is stored nowhere
	Unknown         // it may be stored or not
)
