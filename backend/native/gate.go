package native

import (
	"context"
	"crypto/rand"
	"fmt"
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
//  1. A message is hidden if the node of its connection hands the time on to the queue, and the queue
//     (its Raft machine) is of version 9 or later. Otherwise it is delivered at once, in silence.
//  2. The node of a connection stays what it is until the connection ends. So each connection has a
//     proof of its own, also one that comes back. The goroutine that writes asks for it, between the
//     connection and the message: there is no moment in between.
//  3. The version of a queue never goes back (Ra: a lower one is ignored, and a member that does not
//     know the queue's version applies nothing and is not elected). It rises only once all members
//     can. So a queue that has hidden a message hides the next ones, whoever leads it: until it is
//     deleted. One that is declared in its place, by any Delayer or person, in a cluster that is half
//     upgraded or rolled back, may be of an older version.
//  4. The broker deletes the bindings of a queue with it. The keys of a gate are random, so nobody
//     binds them again. They are bound before the proof, which goes by them. So while such a binding
//     is there, the queue is the one that has passed. Without it the broker returns the message.
//  5. When the topology is in doubt (something was returned, or a connection lost) there is a new
//     gate: new keys, bound anew, and proved anew on each connection.
//
// A proof sends through each queue, on one channel, questions, which have a time, and then a marker,
// which has none. If the marker comes back before a question, that question was hidden; and it must
// come back, too, and not before its time as far as that is known. Where the header is ignored all
// come back in the order in which they were sent. No deadline decides, so a slow broker cannot make
// a failed proof pass. Anything else, such as silence, is a failure: see [prover.prove].
//
// What this does not see: a queue that is there still and has lost its data and its version, because
// an operator has deleted the files of all its members and started them with an older RabbitMQ. The
// proof is repeated on one of the connections every ten seconds, which finds it.
//
// Close unbinds the gate. A process that is killed leaves its bindings, one a queue. They do no harm;
// whoever minds them deletes the exchange <prefix>.native.enter, which is declared again.
type gate struct {
	prover *prover
	keys   []string

	mu     sync.Mutex
	proved map[*amqp091.Connection]verdict
}

// A verdict is what a proof said, and when.
type verdict struct {
	err  error // nil: passed
	when time.Time
}

// failAgain is how long messages fail by the last proof, without another.
const failAgain = time.Second

func newGate(queues int) *gate {
	g := &gate{keys: make([]string, queues), proved: map[*amqp091.Connection]verdict{}}
	token := rand.Text()
	for i := range g.keys {
		g.keys[i] = fmt.Sprintf("%s%s:%d", message.ProvedKey, token, i)
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

// Known implements [broker.Proof].
func (g *gate) Known(conn *amqp091.Connection) (known bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.proved[conn]
	return ok && (v.err == nil || time.Since(v.when) < failAgain), v.err
}

// Prove implements [broker.Proof].
func (g *gate) Prove(ctx context.Context, conn *amqp091.Connection) error {
	p := g.prover
	if err := p.take(ctx); err != nil {
		return err
	}
	if known, err := g.Known(conn); known { // another channel of the connection was first
		p.give()
		return err
	}
	return p.judge(ctx, g, conn)
}

// judged notes a verdict, and forgets connections that have ended.
func (g *gate) judged(conn *amqp091.Connection, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for old := range g.proved {
		if old.IsClosed() {
			delete(g.proved, old)
		}
	}
	g.proved[conn] = verdict{err, time.Now()}
}

var _ broker.Proof = (*gate)(nil)
