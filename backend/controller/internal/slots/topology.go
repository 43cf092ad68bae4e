package slots

import (
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// names are those of the broker's objects:
//
//	<prefix>.controller                  the marker that holds the configuration
//	<prefix>.controller.log              the log; who consumes it leads
//	<prefix>.controller.enter            the exchange in front of it
//	<prefix>.controller.slot.4s.05       a slot
//	<prefix>.controller.enter.slots      the exchange in front of all slots
//	<prefix>.controller.counts           what is known of what waits: the last snapshot of a leader
//	<prefix>.controller.candidates       an empty queue, which all candidates consume: so they are counted
//	<prefix>.controller.clock            a queue whose messages expire at once, and so tell the time
//	<prefix>.controller.clock.answers    the exchange that it dead-letters to
type names struct {
	prefix string
	rings  leader.Rings
}

func (n names) own() string        { return n.prefix + ".controller" } // the marker
func (n names) log() string        { return n.own() + ".log" }
func (n names) enter() string      { return n.own() + ".enter" }
func (n names) counts() string     { return n.own() + ".counts" }
func (n names) candidates() string { return n.own() + ".candidates" }
func (n names) enterSlots() string { return n.own() + ".enter.slots" }
func (n names) clock() string      { return n.own() + ".clock" }

// queue is the name of a slot's queue, or of the log.
func (n names) queue(q leader.Queue) string {
	if q == leader.Log {
		return n.log()
	}
	return fmt.Sprintf("%s.slot.%s.%02d", n.own(), n.rings[q.Ring].Name, q.Index)
}

// to returns the exchange and the key that lead to a queue.
func (n names) to(q leader.Queue) (exchange, key string) {
	if q == leader.Log {
		return n.enter(), ""
	}
	return n.enterSlots(), fmt.Sprintf("%s:slot:%s-%02d", message.Reserved, n.rings[q.Ring].Name, q.Index)
}

// clockKey and countsKey lead from the exchange of the slots to those queues.
const (
	clockKey  = message.Reserved + ":clock"
	countsKey = message.Reserved + ":counts"
)

// shared is the queue through which all processes ask for the time.
func (n names) shared() brokertime.Shared {
	return brokertime.Shared{Queue: n.clock(), Exchange: n.enterSlots(), Key: clockKey, Answers: n.clock() + ".answers"}
}

// config is written into the marker. Two Delayers share a topology only if it is equal.
func (w *Wheel) config() string {
	return fmt.Sprintf("%s:controller,log,slots=%v,%s", w.names.prefix, w.rings, delayer.Quorum)
}

// Plan is the topology, without the delivery stage. The exchanges have no alternate exchange, so
// that a message is returned if its queue is gone.
//
// One consumer at a time takes the messages of a queue: of the log, so that one controller leads; of
// a slot, so that the next waits until the last is gone. The nodes of a cluster share the slots;
// otherwise the node that declares them leads them all. Nothing expires in a slot unless a policy has
// set a message-ttl, and then it goes to the log, and from there to a slot again. Without the exchange
// it would be lost.
func (w *Wheel) Plan() topology.Plan {
	n := w.names
	log, candidates, counts := delivery.Keeping(n.log()), delivery.Keeping(n.candidates()), delivery.Keeping(n.counts())
	log.Role, log.Args["x-single-active-consumer"] = role.Intake, true
	candidates.Role = role.Candidates
	counts.Role = role.Counts
	counts.Args["x-max-length"], counts.Args["x-overflow"] = int64(1), "drop-head"
	delete(counts.Args, "x-dead-letter-strategy")
	p := topology.Plan{
		Markers: []topology.Exchange{{Name: n.own(), Kind: amqp091.ExchangeFanout, Alternate: w.config()}},
		Exchanges: []topology.Exchange{
			{Name: n.enterSlots(), Kind: amqp091.ExchangeDirect},
			{Name: n.enter(), Kind: amqp091.ExchangeFanout},
		},
		Queues:   []topology.Queue{log, candidates, counts},
		Bindings: []topology.Binding{{Source: n.enter(), Target: n.log()}, {Source: n.enterSlots(), Key: countsKey, Target: n.counts()}},
	}
	for _, q := range w.rings.Slots() {
		queue := delivery.Keeping(n.queue(q))
		queue.Args["x-single-active-consumer"] = true
		queue.Args["x-queue-leader-locator"] = "balanced"
		queue.Args["x-dead-letter-exchange"] = n.enter()
		_, key := n.to(q)
		p.Queues = append(p.Queues, queue)
		p.Bindings = append(p.Bindings, topology.Binding{Source: n.enterSlots(), Key: key, Target: queue.Name})
	}
	return p.Add(n.shared().Plan())
}
