package native

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// A gate is how messages get into the waiting queues: by routing keys that nobody else knows, one a
// queue. Each message of this Delayer has a key of its gate, and is written only to a connection
// that has passed the gate's proof. This is what makes sure that no message comes early:
//
//  1. A message is hidden if the node of its connection hands the time on to the queue, and the
//     queue (its Raft machine) is of version 9 or later. Otherwise it is delivered at once, in
//     silence.
//  2. The node of a connection stays what it is until the connection ends. So each connection has a
//     proof of its own, also one that comes back. The goroutine that writes asks for it, between
//     the connection and the message: there is no moment in between.
//  3. The version of a queue never goes back (Ra: a lower one is ignored, and a member that does
//     not know the queue's version applies nothing and is not elected). It rises only once all
//     members can. So a queue that has hidden a message hides the next ones, whoever leads it:
//     until it is deleted. One that is declared in its place, by any Delayer or person, in a
//     cluster that is half upgraded or rolled back, may be of an older version.
//  4. The broker deletes the bindings of a queue with it. The keys of a gate are random, so nobody
//     binds them again. They are bound before the proof, which goes by them. So while such a
//     binding is there, the queue is the one that has passed. Without it the broker returns the
//     message.
//  5. When a message was returned, or an object of ours is missing, there is a new gate: new keys,
//     bound anew, and proved anew.
//
// So a queue passes by one connection for all, and a connection by one queue: if both have passed,
// a message by the one to the other is hidden. A destination that does not confirm may hold up its
// waiting queue, and with it the proof of that queue; others go on.
//
// A proof sends through each queue, on one channel, questions, which have a time, and then a
// marker, which has none. If the marker comes back before a question, that question was hidden; and
// it must come back, too, and not before its time as far as that is known. Where the header is
// ignored all come back in the order in which they were sent. No deadline decides, so a slow broker
// cannot make a failed proof pass. Anything else, such as silence, is a failure: see [asking.came].
//
//  6. Answers come in the order in which the queue forwards them. If one is lost, so are those
//     behind it, until the broker repeats all that is not confirmed: when the queue has another
//     leader, or after three minutes, when the proof is over. So of an old queue, the first answer
//     to a question is never behind that to its marker. What comes a second time does not count.
//
// TestSimulate runs this against upgrades, rollbacks, deletions and lost answers.
//
// What this does not see: a queue that is there still and has lost its data and its version,
// because an operator has deleted the files of all its members and started them with an older
// RabbitMQ. The proof is repeated on one of the connections every ten seconds, which finds it.
//
// Close unbinds the gate. A process that is killed leaves its bindings, one a queue. They do no
// harm; whoever minds them deletes the exchange <prefix>.native.enter, which is declared again.
type gate struct {
	prover *prover
	keys   []string
	bound  bool // run's

	mu     sync.Mutex
	queues []bool // which have passed, by any connection
	nodes  map[*amqp091.Connection]node
}

// A node is what is known of the one that a connection leads to.
type node struct {
	passed bool  // by any queue
	err    error // of the last proof by the connection; nil: it passed
	failed time.Time
}

// failAgain is how long messages fail by the last proof, without another.
const failAgain = time.Second

func newGate(p *prover, queues int) *gate {
	g := &gate{prover: p, queues: make([]bool, queues), nodes: map[*amqp091.Connection]node{}}
	token := rand.Text()
	for i := range queues {
		g.keys = append(g.keys, fmt.Sprintf("%s%s:%d", message.ProvedKey, token, i))
	}
	return g
}

// bindings lead messages with the keys of the gate to the queues, whatever words were added.
func (g *gate) bindings(n names) []topology.Binding {
	list := make([]topology.Binding, len(g.keys))
	for i, key := range g.keys {
		list[i] = topology.Binding{Source: n.enter(), Key: key + ".#", Target: n.wait(i)}
	}
	return list
}

// known returns whether messages to a queue may be written to a connection, or why its last proof
// failed a moment ago. Otherwise a proof is to tell.
func (g *gate) known(conn *amqp091.Connection, queue int) (known bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[conn]
	if n.passed && g.queues[queue] {
		return true, nil
	}
	return n.err != nil && time.Since(n.failed) < failAgain, n.err
}

// pass notes that a queue has hidden a question that came by a connection, and reports whether the
// connection has passed by that.
func (g *gate) pass(conn *amqp091.Connection, queue int) (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first = !g.nodes[conn].passed
	g.queues[queue], g.nodes[conn] = true, node{passed: true}
	return first
}

// ignored notes that a queue has hidden no question that came by a connection. Either may be old.
func (g *gate) ignored(conn *amqp091.Connection, queue int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues[queue], g.nodes[conn] = false, node{}
}

// fail notes that a proof has failed, and reports whether messages fail by that: what has passed
// stays so while a node does not answer.
func (g *gate) fail(conn *amqp091.Connection, err error) (matters bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for old := range g.nodes {
		if old.IsClosed() {
			delete(g.nodes, old)
		}
	}
	n := g.nodes[conn]
	n.err, n.failed = err, time.Now()
	g.nodes[conn] = n
	return !n.passed || slices.Contains(g.queues, false)
}

// A pass is what a message needs: that its connection and its queue have passed, each with any of
// the other. It is a [broker.Proof].
type pass struct {
	gate  *gate
	queue int
}

var _ broker.Proof = pass{}

// Known implements [broker.Proof].
func (m pass) Known(conn *amqp091.Connection) (known bool, err error) {
	return m.gate.known(conn, m.queue)
}

// Prove implements [broker.Proof].
func (m pass) Prove(ctx context.Context, conn *amqp091.Connection) error {
	return m.gate.prover.want(ctx, want{gate: m.gate, conn: conn, queue: m.queue, most: proofTimeout})
}
