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
//	<prefix>.controller.intake   the queue that controllers consume, and where slots dead-letter to
//	<prefix>.controller.enter    the exchange for delays that are too short for a queue
type names struct{ prefix string }

func (n names) marker() string { return n.prefix + ".controller" }
func (n names) intake() string { return n.prefix + ".controller.intake" }
func (n names) enter() string  { return n.prefix + ".controller.enter" }

// blueprint knows what the broker must hold.
type blueprint struct {
	wheel wheel.Wheel
	names names
	kind  delayer.QueueType
	stage delivery.Stage
}

// config is written into the marker. Two Delayers share a topology only if it is equal.
func (b blueprint) config() string {
	return fmt.Sprintf("%s:controller,slots=%v,%s", b.names.prefix, b.wheel, b.kind)
}

// Plan is the whole topology. Every exchange is a fanout with one queue behind it: messages keep
// the user's keys, and no key needs a binding. The exchanges that we publish to have no alternate
// exchange, so that a message is returned if its queue is gone. The exchange that queues
// dead-letter to has one.
func (b blueprint) Plan() topology.Plan {
	intake := topology.Queue{Name: b.names.intake(), Role: topology.Intake, Args: amqp091.Table{
		"x-queue-type":     string(b.kind),
		"x-overflow":       "reject-publish", // under a policy with max-length: refuse, do not drop
		"x-delivery-limit": objects.NeverGivenUp,
		"x-max-length":     objects.NeverFull,
	}}
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
	return b.slots(p)
}
