package controller

import (
	"fmt"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// With wheel: slots there are, instead of waiting queues with a TTL:
//
//	<prefix>.controller.wait.seconds.05  the queue of a slot
//	<prefix>.controller.enter.slots      the exchange in front of all slots
//	<prefix>.controller.clock            a queue whose messages expire at once, and so tell the time
//	<prefix>.controller.clock.answers    the exchange that it dead-letters to
//	<prefix>.controller.steps            the steps of the broker's clock, a stream
//	<prefix>.controller.changes          what was cancelled or postponed, a stream
func (n names) clock() string      { return n.prefix + ".controller.clock" }
func (n names) steps() string      { return n.prefix + ".controller.steps" }
func (n names) changes() string    { return n.prefix + ".controller.changes" }
func (n names) enterSlots() string { return n.prefix + ".controller.enter.slots" }

// slot is the name of a slot's queue.
func (b blueprint) slot(s wheel.Slot) string {
	return fmt.Sprintf("%s.controller.wait.%s.%02d", b.names.prefix, b.wheel[s.Level].Name, s.Index)
}

// slotKey leads from the exchange of the slots to a slot. It takes the place of the user's routing
// key, which travels in the stamp: for a message with two keys RabbitMQ 3.10 walks all bindings of a
// direct exchange (rabbit_router, match_routing_key), and a topic exchange costs 4.3 more.
func (b blueprint) slotKey(s wheel.Slot) string {
	return fmt.Sprintf("%s:slot:%s-%02d", message.Reserved, b.wheel[s.Level].Name, s.Index)
}

// Keys of the exchange of the slots that lead to other queues.
const (
	stepsKey   = message.Reserved + ":steps"
	changesKey = message.Reserved + ":changes"
	clockKey   = message.Reserved + ":clock"
)

// shared is the queue through which all processes ask for the time.
func (n names) shared() brokertime.Shared {
	return brokertime.Shared{Queue: n.clock(), Exchange: n.enterSlots(), Key: clockKey, Answers: n.clock() + ".answers"}
}

// slots adds the slots to a plan. One consumer at a time takes the messages of a slot, so that only
// one controller holds them. The nodes of a cluster share the slots; otherwise the node that declares
// them leads them all.
//
// Nothing expires in a slot unless a policy has set a message-ttl, and then it goes to the intake, and
// from there to a slot again. Without the exchange it would be lost.
func (b blueprint) slots(p topology.Plan) topology.Plan {
	enter := topology.Exchange{Name: b.names.enterSlots(), Kind: topology.Direct}
	p.Exchanges = append(p.Exchanges, enter)
	for _, s := range b.wheel.Slots() {
		queue := delivery.Keeping(b.slot(s))
		queue.Args["x-single-active-consumer"] = true
		queue.Args["x-queue-leader-locator"] = "balanced"
		queue.Args["x-dead-letter-exchange"] = b.names.enter()
		p.Queues = append(p.Queues, queue)
		p.Bindings = append(p.Bindings, topology.Binding{Source: enter.Name, Key: b.slotKey(s), Target: queue.Name})
	}
	p.Queues = append(p.Queues, brokertime.LogQueue(b.names.steps()))
	p.Bindings = append(p.Bindings, topology.Binding{Source: enter.Name, Key: stepsKey, Target: b.names.steps()})
	p.Queues = append(p.Queues, changesQueue(b.names.changes()))
	p.Bindings = append(p.Bindings, topology.Binding{Source: enter.Name, Key: changesKey, Target: b.names.changes()})
	return p.Add(b.names.shared().Plan())
}
