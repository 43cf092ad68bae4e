package controller

import (
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// names are those of the controller's broker objects:
//
//	<prefix>.controller          the marker that holds the configuration
//	<prefix>.controller.wait.05  the queue of level 5, and the exchange in front of it
//	<prefix>.controller.intake   the queue that controllers consume, and where waiting queues dead-letter to
//	<prefix>.controller.enter    the exchange for delays that are too short for a queue
type names struct{ prefix string }

func (n names) marker() string        { return n.prefix + ".controller" }
func (n names) intake() string        { return n.prefix + ".controller.intake" }
func (n names) enter() string         { return n.prefix + ".controller.enter" }
func (n names) wait(level int) string { return fmt.Sprintf("%s.controller.wait.%02d", n.prefix, level) }

// blueprint knows what the broker must hold.
type blueprint struct {
	wheel    wheel.Wheel // nil: rounds, with a schedule
	schedule schedule
	names    names
	kind     delayer.QueueType
	stage    delivery.Stage
}

// config is written into the marker. Two Delayers share a topology only if it is equal.
func (b blueprint) config() string {
	if b.wheel != nil {
		return fmt.Sprintf("%s:controller,slots=%v,%s", b.names.prefix, b.wheel, b.kind)
	}
	return fmt.Sprintf("%s:controller,levels=%d,tick=%v,%s", b.names.prefix, b.schedule.levels, b.schedule.tick, b.kind)
}

// plan is the whole topology. Every exchange is a fanout with one queue behind it: messages keep
// the user's keys, and no key needs a binding. The exchanges that we publish to have no alternate
// exchange, so that a message is returned if its queue is gone. The exchange that queues
// dead-letter to has one.
func (b blueprint) plan() topology.Plan {
	intake := topology.Queue{Name: b.names.intake(), Role: topology.Intake, Args: amqp091.Table{
		"x-queue-type": string(b.kind),
		"x-overflow":   "reject-publish", // under a policy with max-length: refuse, do not drop
	}}
	if b.kind == delayer.Quorum {
		intake.Args["x-delivery-limit"] = objects.NeverGivenUp
		intake.Args["x-max-length"] = objects.NeverFull
	}
	p := topology.Plan{
		Markers: []topology.Marker{{Name: b.names.marker(), Config: b.config()}},
		Exchanges: []topology.Exchange{
			{Name: b.names.intake(), Kind: topology.Fanout, Alternate: b.stage.Unroutable()},
			{Name: b.names.enter(), Kind: topology.Fanout},
		},
		Queues: []topology.Queue{intake},
		Bindings: []topology.Binding{
			{Source: b.names.intake(), Target: b.names.intake()},
			{Source: b.names.enter(), Target: b.names.intake()},
		},
	}
	if b.wheel != nil {
		return b.slots(p)
	}
	for level := range b.schedule.levels {
		name := b.names.wait(level)
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: name, Kind: topology.Fanout})
		p.Queues = append(p.Queues, objects.WaitingQueue(name, b.kind, b.schedule.ttl(level), b.names.intake()))
		p.Bindings = append(p.Bindings, topology.Binding{Source: name, Target: name})
	}
	return p
}
