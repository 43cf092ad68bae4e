package slots

import (
	"fmt"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// names are those of the broker's objects:
//
//	<prefix>.controller                  the marker that holds the configuration
//	<prefix>.controller.wait.4s.05       the queue of a slot
//	<prefix>.controller.enter.slots      the exchange in front of all slots
//	<prefix>.controller.intake           the queue of what has no slot yet; who consumes it leads
//	<prefix>.controller.enter            the exchange in front of it
//	<prefix>.controller.candidates       an empty queue, which all candidates consume: so they are counted
//	<prefix>.controller.clock            a queue whose messages expire at once, and so tell the time
//	<prefix>.controller.clock.answers    the exchange that it dead-letters to
type names struct {
	prefix string
	wheel  wheel.Wheel
}

func (n names) own() string        { return n.prefix + ".controller" } // the marker
func (n names) intake() string     { return n.own() + ".intake" }
func (n names) enter() string      { return n.own() + ".enter" }
func (n names) candidates() string { return n.own() + ".candidates" }
func (n names) enterSlots() string { return n.own() + ".enter.slots" }
func (n names) clock() string      { return n.own() + ".clock" }

// queue is the queue of a slot, or the intake.
func (n names) queue(s wheel.Slot) string {
	if s == wheel.Intake {
		return n.intake()
	}
	return fmt.Sprintf("%s.wait.%s.%02d", n.own(), n.wheel[s.Level].Name, s.Index)
}

// slotKey leads from the exchange of the slots to a slot. It takes the place of the user's routing
// key, which travels in the stamp: for a message with two keys RabbitMQ 3.10 walks all bindings of
// a direct exchange (rabbit_router, match_routing_key), and a topic exchange costs 4.3 more.
func (n names) slotKey(s wheel.Slot) string {
	return fmt.Sprintf("%s:slot:%s-%02d", message.Reserved, n.wheel[s.Level].Name, s.Index)
}

// clockKey leads from the exchange of the slots to the queue of the clock.
const clockKey = message.Reserved + ":clock"

// shared is the queue through which all processes ask for the time.
func (n names) shared() brokertime.Shared {
	return brokertime.Shared{Queue: n.clock(), Exchange: n.enterSlots(), Key: clockKey, Answers: n.clock() + ".answers"}
}

// config is written into the marker. Two Delayers share a topology only if it is equal.
func (w *Wheel) config() string {
	return fmt.Sprintf("%s:controller,slots=%v,%s", w.names.prefix, w.wheel, delayer.Quorum)
}

// Plan is the topology, without the delivery stage. The exchanges have no alternate exchange, so
// that a message is returned if its queue is gone.
//
// One consumer at a time takes the messages of a queue: of the intake, so that one controller
// leads; of a slot, so that the next waits until the last is gone. The nodes of a cluster share the
// slots; otherwise the node that declares them leads them all. Nothing expires in a slot unless a
// policy has set a message-ttl, and then it goes to the intake, and from there to a slot again.
// Without the exchange it would be lost.
func (w *Wheel) Plan() topology.Plan {
	n := w.names
	intake, candidates := delivery.Keeping(n.intake()), delivery.Keeping(n.candidates())
	intake.Role, intake.Args["x-single-active-consumer"] = topology.Intake, true
	candidates.Role = topology.Candidates
	p := topology.Plan{
		Markers: []topology.Marker{{Name: n.own(), Config: w.config()}},
		Exchanges: []topology.Exchange{
			{Name: n.enterSlots(), Kind: topology.Direct},
			{Name: n.enter(), Kind: topology.Fanout},
		},
		Queues:   []topology.Queue{intake, candidates},
		Bindings: []topology.Binding{{Source: n.enter(), Target: n.intake()}},
	}
	for _, s := range w.wheel.Slots() {
		queue := delivery.Keeping(n.queue(s))
		queue.Args["x-single-active-consumer"] = true
		queue.Args["x-queue-leader-locator"] = "balanced"
		queue.Args["x-dead-letter-exchange"] = n.enter()
		p.Queues = append(p.Queues, queue)
		p.Bindings = append(p.Bindings, topology.Binding{Source: n.enterSlots(), Key: n.slotKey(s), Target: queue.Name})
	}
	return p.Add(n.shared().Plan())
}
