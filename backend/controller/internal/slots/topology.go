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

// The names of the broker's objects:
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

func (w *Wheel) own() string        { return w.prefix + ".controller" } // the marker
func (w *Wheel) log() string        { return w.own() + ".log" }
func (w *Wheel) enter() string      { return w.own() + ".enter" }
func (w *Wheel) counts() string     { return w.own() + ".counts" }
func (w *Wheel) candidates() string { return w.own() + ".candidates" }
func (w *Wheel) enterSlots() string { return w.own() + ".enter.slots" }
func (w *Wheel) clock() string      { return w.own() + ".clock" }

// queue is the name of a slot's queue, or of the log.
func (w *Wheel) queue(q leader.Queue) string {
	if q == leader.Log {
		return w.log()
	}
	return fmt.Sprintf("%s.slot.%s.%02d", w.own(), w.rings[q.Ring].Name, q.Index)
}

// to returns the exchange and the key that lead to a queue.
func (w *Wheel) to(q leader.Queue) (exchange, key string) {
	if q == leader.Log {
		return w.enter(), ""
	}
	return w.enterSlots(), fmt.Sprintf("%s:slot:%s-%02d", message.Reserved, w.rings[q.Ring].Name, q.Index)
}

// clockKey and countsKey lead from the exchange of the slots to those queues.
const (
	clockKey  = message.Reserved + ":clock"
	countsKey = message.Reserved + ":counts"
)

// shared is the queue through which all processes ask for the time.
func (w *Wheel) shared() brokertime.Shared {
	return brokertime.Shared{Queue: w.clock(), Exchange: w.enterSlots(), Key: clockKey, Answers: w.clock() + ".answers"}
}

// config is written into the marker. Two Delayers share a topology only if it is equal.
func (w *Wheel) config() string {
	return fmt.Sprintf("%s:controller,log,slots=%v,%s", w.prefix, w.rings, delayer.Quorum)
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
	log, candidates, counts := delivery.Keeping(w.log()), delivery.Keeping(w.candidates()), delivery.Keeping(w.counts())
	log.Role, log.Args["x-single-active-consumer"] = role.Intake, true
	candidates.Role = role.Candidates
	counts.Role = role.Counts
	counts.Args["x-max-length"], counts.Args["x-overflow"] = int64(1), "drop-head"
	delete(counts.Args, "x-dead-letter-strategy")
	p := topology.Plan{
		Markers: []topology.Exchange{{Name: w.own(), Kind: amqp091.ExchangeFanout, Alternate: w.config()}},
		Exchanges: []topology.Exchange{
			{Name: w.enterSlots(), Kind: amqp091.ExchangeDirect},
			{Name: w.enter(), Kind: amqp091.ExchangeFanout},
		},
		Queues:   []topology.Queue{log, candidates, counts},
		Bindings: []topology.Binding{{Source: w.enter(), Target: w.log()}, {Source: w.enterSlots(), Key: countsKey, Target: w.counts()}},
	}
	for _, q := range w.rings.Slots() {
		queue := delivery.Keeping(w.queue(q))
		queue.Args["x-single-active-consumer"] = true
		queue.Args["x-queue-leader-locator"] = "balanced"
		queue.Args["x-dead-letter-exchange"] = w.enter()
		_, key := w.to(q)
		p.Queues = append(p.Queues, queue)
		p.Bindings = append(p.Bindings, topology.Binding{Source: w.enterSlots(), Key: key, Target: queue.Name})
	}
	return p.Add(w.shared().Plan())
}
