package native

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// TestSimulate runs the protocol of the gate against a cluster of three nodes that are upgraded,
// rolled back and stopped, while queues move and are deleted, connections end and answers are lost.
// No message may be written where it could come early, and all are written again when the faults
// end.
func TestSimulate(t *testing.T) {
	const seeds = 25
	published, refused := 0, 0
	for seed := range uint64(seeds) {
		w := simulate(t, seed, mutant{})
		require.Empty(t, w.problems, "seed %d", seed)
		published += w.published
		refused += w.refused
	}
	t.Logf("%d messages were written and %d refused", published, refused)
	require.Greater(t, published, 10*seeds)
	require.Greater(t, refused, 10*seeds)
}

// TestSimulate_Mutants: a protocol with one of these faults is found out.
func TestSimulate_Mutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			for seed := range uint64(100) {
				if w := simulate(t, seed, m); len(w.problems) > 0 {
					t.Logf("seed %d: %s", seed, w.problems[0])
					return
				}
			}
			t.Fatal("no seed has found it")
		})
	}
}

// A mutant does something wrong around what decides.
type mutant struct {
	name string

	keepsConn  bool // a connection that comes back has passed already
	keepsGate  bool // a queue that is declared again gets the old keys
	early      bool // the proof is asked for before the message waits for its turn, and not again
	oldAnswers bool // answers to an earlier proof count for this one
	duplicates bool // an answer that comes twice counts twice
	late       bool // a question that comes back late was hidden
	anyConn    bool // a connection passes for all
	anyQueue   bool // a queue passes for all
	earliest   bool // the clock of a queue shows the earliest time that it may show
}

var mutants = []mutant{
	{name: "a connection that comes back", keepsConn: true},
	{name: "a queue that is declared again", keepsGate: true},
	{name: "asked too soon", early: true},
	{name: "answers to an earlier proof", oldAnswers: true},
	{name: "duplicates", duplicates: true},
	{name: "a late answer", late: true},
	{name: "one connection for all", anyConn: true},
	{name: "one queue for all", anyQueue: true},
	{name: "the earliest time", earliest: true},
}

const (
	simNodes, simQueues, simConns = 3, 2, 3

	simFaults  = 20 * time.Second // while there are faults
	simCalm    = 10 * time.Second // afterwards
	simMost    = 2 * time.Second  // for a proof
	simDelay   = time.Hour
	simSkew    = 5 * time.Second
	simVersion = 9 // of a queue that hides
)

// A world is a cluster, and one Delayer.
type world struct {
	rand   *rand.Rand
	mutant mutant
	events []event // by their time
	end    time.Time
	calm   time.Time // no more faults

	nodes  [simNodes]simNode
	queues [simQueues]*simQueue // nil: deleted
	bound  map[string]*simQueue // by key
	conns  [simConns]*simConn
	skewed bool // the clocks of the nodes differ

	p       *prover
	proof   *simProof
	wanted  []want
	earlier map[string]question // of mutant oldAnswers
	wake    bool
	next    int // connection to be proved

	published, refused int
	last               map[string]time.Time // when a message was last written, by connection and queue
	problems           []string
}

type event struct {
	at time.Time
	do func()
}

// after has something done later. What is to be done at one time is done in its order.
func (w *world) after(d time.Duration, do func()) {
	e := event{time.Now().Add(d), do}
	at, _ := slices.BinarySearchFunc(w.events, e, func(a, b event) int { return a.at.Compare(b.at)*2 - 1 }) // behind those of the same time
	w.events = slices.Insert(w.events, at, e)
}

// upTo is a duration, mostly short.
func (w *world) upTo(most time.Duration) time.Duration {
	if w.rand.IntN(20) > 0 {
		most /= 20
	}
	return time.Duration(w.rand.Int64N(int64(most)))
}

// A simNode is a node of the cluster.
type simNode struct {
	hides bool // it is of 4.4
	up    bool
	ahead time.Duration // of its clock
}

func (n simNode) version() int {
	if n.hides {
		return simVersion
	}
	return simVersion - 1
}

// A simQueue is a quorum queue with a member on each node, until it is deleted.
type simQueue struct {
	number  int
	version int // never goes back
	leader  int // -1: none can be elected
	deleted bool
	waiting []simMessage // come in while there is no leader
	pending []simMessage // forwarded, and not settled: another leader does it again
	link    *simLink
}

// A simLink is the way of answers from a leader to the Delayer.
type simLink struct {
	broken bool
	busy   time.Time // until when what was forwarded is on its way
}

type simMessage struct {
	header string // of a question; empty: a message of the user
	at     int64  // in ms; 0: it has no time
	due    time.Time
	handed bool // its time was handed on to the queue
}

// A simConn is a connection of the Delayer.
type simConn struct {
	number int
	conn   *amqp091.Connection
	node   int
	open   bool
	busy   time.Time // until when what was sent is on its way
}

// A simProof is the proof that is being made.
type simProof struct {
	want want
	*asking
	by   *simConn
	seen map[string]question // of mutant duplicates
}

func simulate(t *testing.T, seed uint64, m mutant) (w *world) {
	synctest.Test(t, func(*testing.T) {
		w = &world{
			rand: rand.New(rand.NewPCG(seed, 58)), mutant: m, bound: map[string]*simQueue{}, last: map[string]time.Time{}, //nolint:gosec // it must be the same again
			calm: time.Now().Add(simFaults), end: time.Now().Add(simFaults + simCalm), p: newProver(names{prefix: "p"}, simQueues),
		}
		ahead := time.Duration(w.rand.IntN(3)-1) * time.Hour
		w.skewed = w.rand.IntN(3) == 0
		for i := range w.nodes {
			w.nodes[i] = simNode{hides: w.rand.IntN(2) == 0, up: true, ahead: ahead}
			if w.skewed {
				w.nodes[i].ahead += w.upTo(simSkew)
			}
		}
		for i := range w.queues {
			w.declare(i)
		}
		for i := range w.conns {
			w.conns[i] = &simConn{number: i, conn: &amqp091.Connection{}}
			w.connect(w.conns[i])
		}
		w.after(0, w.publishing)
		w.after(0, w.proving)
		w.after(0, w.failing)
		for len(w.events) > 0 && len(w.problems) == 0 {
			e := w.events[0]
			w.events = w.events[1:]
			time.Sleep(time.Until(e.at))
			e.do()
		}
		w.p.cancel()
	})
	return w
}

// The broker.

// declare declares a queue, by any Delayer. Nodes that are down are not asked for their version.
func (w *world) declare(number int) {
	q := &simQueue{number: number, version: simVersion, leader: -1, link: &simLink{}}
	for _, n := range w.nodes {
		if n.up {
			q.version = min(q.version, n.version())
		}
	}
	w.queues[number] = q
	w.elect(q)
}

// elect gives a queue another leader: a member that knows its version, with a majority of such.
// What the last one has not settled is forwarded again. The version rises if all members know a
// higher one.
func (w *world) elect(q *simQueue) {
	var can []int
	lowest := simVersion
	for i, n := range w.nodes {
		lowest = min(lowest, n.version())
		if n.up && n.version() >= q.version {
			can = append(can, i)
		}
	}
	q.leader = -1
	if len(can) <= simNodes/2 {
		return
	}
	q.leader, q.link = can[w.rand.IntN(len(can))], &simLink{}
	q.version = max(q.version, lowest)
	again, waiting := q.pending, q.waiting
	q.pending, q.waiting = nil, nil
	for _, m := range again {
		w.forward(q, m)
	}
	for _, m := range waiting {
		w.enqueue(q, m)
	}
}

// publish sends a message by a connection, behind those before it.
func (w *world) publish(c *simConn, key string, m simMessage) {
	on, was := c.conn, c.node
	c.busy = later(c.busy, time.Now().Add(w.upTo(20*time.Millisecond)))
	w.after(time.Until(c.busy), func() {
		if !c.open || c.conn != on || c.node != was {
			return // it is lost
		}
		m.handed = w.nodes[c.node].hides
		if q := w.bound[key]; q != nil && !q.deleted {
			w.enqueue(q, m)
			return
		}
		w.after(w.upTo(20*time.Millisecond), func() { w.returned(c, m) })
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// enqueue gives a message to a queue. One of the user must be hidden there, for long enough.
func (w *world) enqueue(q *simQueue, m simMessage) {
	if q.leader < 0 {
		q.waiting = append(q.waiting, m)
		return
	}
	hides := m.handed && q.version == simVersion
	ahead := w.nodes[q.leader].ahead
	if m.header == "" {
		if !hides {
			w.problem("a message is not hidden: its time was handed on %v, the queue's version is %d", m.handed, q.version)
		} else if early := m.due.Add(ahead).Sub(time.UnixMilli(m.at)); early > 0 && !w.skewed || early > simSkew {
			w.problem("a message is %v early", early) // another leader with another clock is nobody's fault
		}
		return
	}
	wait := time.Millisecond // the expiry of what is not hidden
	if hidden := time.UnixMilli(m.at).Sub(time.Now().Add(ahead)); m.at != 0 && hides && hidden > 0 {
		wait = hidden
	}
	w.after(wait, func() {
		if !q.deleted {
			w.forward(q, m)
		}
	})
}

// forward dead-letters a message, behind those before it. It is settled some time later. If one is
// lost, so are those behind it, until there is another leader.
func (w *world) forward(q *simQueue, m simMessage) {
	q.pending = append(q.pending, m)
	by := q.link
	by.busy = later(by.busy, time.Now().Add(w.upTo(20*time.Millisecond)))
	dated := time.Now().Add(w.nodes[max(0, q.leader)].ahead).Truncate(time.Second)
	w.after(time.Until(by.busy), func() {
		if by.broken = by.broken || w.faulty(300); by.broken {
			return
		}
		w.after(w.upTo(100*time.Millisecond), func() {
			q.pending = slices.DeleteFunc(q.pending, func(o simMessage) bool { return o.header == m.header })
		})
		w.came(m.header, dated)
	})
}

// faulty is true once in so many times, while there are faults.
func (w *world) faulty(once int) bool { return time.Now().Before(w.calm) && w.rand.IntN(once) == 0 }

// failing does something to the cluster or the connections again and again. In the end all is of
// 4.4.
func (w *world) failing() {
	if !time.Now().Before(w.calm) {
		for i := range w.nodes {
			w.nodes[i].hides, w.nodes[i].up = true, true
		}
		for i, q := range w.queues {
			if q == nil {
				w.declare(i)
			} else {
				w.elect(q)
			}
		}
		w.after(time.Until(w.end), w.finish)
		return
	}
	node, number := w.rand.IntN(simNodes), w.rand.IntN(simQueues)
	switch n := &w.nodes[node]; w.rand.IntN(9) {
	case 0, 1: // it stops, or starts again as the same
		w.start(node, n.hides, !n.up)
	case 2: // it is upgraded
		w.start(node, true, true)
	case 3: // or rolled back
		w.start(node, w.rand.IntN(2) == 0, true)
	case 4:
		w.disconnect(w.conns[w.rand.IntN(simConns)])
	case 5:
		if q := w.queues[number]; q != nil {
			w.elect(q)
		}
	case 6: // the connection of the answers is lost
		if w.proof != nil {
			w.proved(amqp091.ErrClosed)
		}
	case 7, 8: // it is deleted, and somebody may declare it at once
		if q := w.queues[number]; q != nil {
			q.deleted = true
			w.queues[number] = nil
		}
		if w.rand.IntN(2) == 0 {
			w.stranger(number)
		}
	}
	w.after(w.upTo(4*time.Second), w.failing)
}

// stranger declares a queue that is missing. A person who restores the topology gives it the keys
// of others if they are not random.
func (w *world) stranger(number int) {
	if w.queues[number] != nil {
		return
	}
	w.declare(number)
	if w.mutant.keepsGate {
		w.bound[w.p.gate().keys[number]] = w.queues[number]
	}
}

// start stops a node, and starts it again, as this or that.
func (w *world) start(node int, hides, up bool) {
	w.nodes[node].hides, w.nodes[node].up = hides, up
	for _, c := range w.conns {
		if c.node == node {
			w.disconnect(c)
		}
	}
	for _, q := range w.queues {
		if q != nil {
			w.elect(q)
		}
	}
}

// The Delayer's connections.

func (w *world) disconnect(c *simConn) {
	if !c.open {
		return
	}
	c.open = false
	if w.proof != nil && w.proof.by == c {
		w.proved(nil) // it says nothing
	}
	w.after(w.upTo(time.Second), func() { w.connect(c) })
}

func (w *world) connect(c *simConn) {
	c.node = w.rand.IntN(simNodes)
	if !w.nodes[c.node].up {
		w.after(100*time.Millisecond, func() { w.connect(c) })
		return
	}
	c.open, c.busy = true, time.Time{}
	if !w.mutant.keepsConn {
		c.conn = &amqp091.Connection{}
	}
}

// Its publishers.

// publishing publishes a message to a queue again and again. It waits for its turn at a connection.
func (w *world) publishing() {
	if time.Now().After(w.end) {
		return
	}
	w.after(w.upTo(time.Second), w.publishing)
	queue, c := w.rand.IntN(simQueues), w.conns[w.rand.IntN(simConns)]
	due := time.Now().Add(simDelay)
	at, ok := w.p.clocks[queue].At(due, time.Now())
	if !ok {
		w.refused++
		w.wake = true
		return
	}
	if r, _ := w.p.clocks[queue].Read(); w.mutant.earliest {
		at = r.Earliest.Add(simDelay)
	}
	g := w.p.gate()
	m := simMessage{at: at.Add(time.Millisecond - 1).UnixMilli(), due: due}
	known, err := g.known(c.conn, queue)
	soon := w.mutant.early && known && err == nil
	w.after(w.upTo(400*time.Millisecond), func() {
		known, err := pass{gate: g, queue: queue}.Known(c.conn)
		if soon || known && err == nil {
			w.write(c, g, queue, m)
			return
		}
		w.refused++ // it would wait for the proof, and be written if that is passed
		waits := slices.ContainsFunc(w.wanted, func(a want) bool { return a.conn == c.conn })
		if !known && !waits {
			w.wanted = append(w.wanted, want{gate: g, conn: c.conn, queue: queue})
		}
	})
}

func (w *world) write(c *simConn, g *gate, queue int, m simMessage) {
	w.published++
	w.last[fmt.Sprint(c.number, queue)] = time.Now()
	w.publish(c, g.keys[queue], m)
}

// returned is called when a message has found no queue. The keeper declares what is missing.
func (w *world) returned(c *simConn, m simMessage) {
	if m.header != "" {
		if w.proof == nil || w.proof.by != c {
			return
		}
		current := w.proof.gate == w.p.gate()
		w.proved(errors.New("returned"))
		if !current {
			return
		}
	}
	w.after(w.upTo(200*time.Millisecond), func() {
		for i, q := range w.queues {
			if q == nil {
				w.stranger(i)
			}
		}
		if !w.mutant.keepsGate {
			w.p.reset()
		}
	})
}

// Its proofs, as prover.run has them made.

func (w *world) proving() {
	if time.Now().After(w.end) {
		return
	}
	w.after(20*time.Millisecond, w.proving)
	if w.proof != nil {
		return
	}
	a := want{gate: w.p.gate(), queue: whole}
	if len(w.wanted) > 0 {
		a, w.wanted = w.wanted[0], w.wanted[1:]
		if met, _ := a.met(); met {
			return
		}
	} else if !w.wake && w.rand.IntN(50) > 0 {
		return
	} else {
		w.wake = false
		w.next++
		a.conn = w.conns[w.next%simConns].conn
	}
	at := slices.IndexFunc(w.conns[:], func(c *simConn) bool { return c.conn == a.conn && c.open })
	if at >= 0 {
		w.prove(a, w.conns[at])
	}
}

func (w *world) prove(a want, c *simConn) {
	p := &simProof{want: a, by: c, seen: map[string]question{}}
	p.asking = &asking{
		names: w.p.names, log: slog.New(slog.DiscardHandler), clocks: w.p.clocks, gate: a.gate, conn: a.conn,
		publish: func(queue int, e message.Envelope, hidden amqp091.Table) error {
			at, _ := hidden[message.NativeDelay].(int64)
			w.publish(c, a.gate.keys[queue], simMessage{header: e.String(), at: at})
			return nil
		},
	}
	w.proof = p
	if !a.gate.bound {
		for i, key := range a.gate.keys {
			if w.queues[i] == nil {
				w.proved(errors.New("there is no such queue"))
				w.returned(nil, simMessage{})
				return
			}
			w.bound[key] = w.queues[i]
		}
		a.gate.bound = true
	}
	if err := p.begin(); err != nil {
		panic(err)
	}
	if w.mutant.oldAnswers {
		for header, q := range w.earlier {
			q.round = -1
			if !q.time.IsZero() {
				p.sent[header] = q
			}
		}
	}
	w.after(simMost, func() {
		if w.proof == p {
			w.proved(errors.New("silent"))
		}
	})
}

// came brings an answer.
func (w *world) came(header string, dated time.Time) {
	p := w.proof
	if p == nil {
		return
	}
	if q, twice := p.seen[header]; twice && w.mutant.duplicates && !q.time.IsZero() && q.round < p.ladders[q.queue].round {
		p.sent[header] = q
	}
	q, ours := p.sent[header]
	if !ours {
		return
	}
	p.seen[header] = q
	if w.mutant.late && !q.time.IsZero() && time.Since(p.ladders[q.queue].sent) > 100*time.Millisecond {
		p.gate.pass(p.conn, q.queue)
	}
	err := p.asking.came(&amqp091.Delivery{Headers: amqp091.Table{delayer.Header: header, "x-death": []any{amqp091.Table{"time": dated}}}})
	if err != nil {
		panic(err)
	}
	if w.mutant.anyConn && p.gate.nodes[p.conn].passed {
		for _, c := range w.conns {
			p.gate.nodes[c.conn] = node{passed: true}
		}
	}
	if w.mutant.anyQueue && slices.Contains(p.gate.queues, true) {
		for i := range p.gate.queues {
			p.gate.queues[i] = true
		}
	}
	if met, _ := p.want.met(); met || p.settled() {
		w.proved(p.err())
	}
}

// proved ends a proof.
func (w *world) proved(err error) {
	w.earlier = w.proof.sent
	if err != nil {
		w.proof.gate.fail(w.proof.conn, err)
	}
	w.proof = nil
}

// finish looks whether messages are written again, by all connections to all queues.
func (w *world) finish() {
	for c := range simConns {
		for q := range simQueues {
			since := time.Since(w.last[fmt.Sprint(c, q)])
			if since > simCalm/2 && w.mutant.name == "" { // a mutant must be found by what it does too soon
				w.problem("no message is written any more by connection %d to queue %d", c, q)
			}
		}
	}
	w.events = nil
}

func (w *world) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}
