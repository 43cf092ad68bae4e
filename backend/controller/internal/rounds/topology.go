package rounds

import (
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// names are those of the broker's objects:
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

// config is written into the marker. Two Delayers share a topology only if it is equal.
func (w *Wheel) config() string {
	return fmt.Sprintf("%s:controller,levels=%d,tick=%v,%s", w.names.prefix, w.schedule.levels, w.schedule.tick, w.kind)
}

// Plan is the topology, without the delivery stage. Every exchange is a fanout with one queue
// behind it: messages keep the user's keys, and no key needs a binding. The exchanges that we
// publish to have no alternate exchange, so that a message is returned if its queue is gone. The
// exchange that queues dead-letter to has one.
func (w *Wheel) Plan() topology.Plan {
	intake := topology.Queue{Name: w.names.intake(), Role: role.Intake, Args: amqp091.Table{
		"x-queue-type": string(w.kind),
		"x-overflow":   "reject-publish", // under a policy with max-length: refuse, do not drop
	}}
	if w.kind == delayer.Quorum {
		intake.Args["x-delivery-limit"] = objects.NeverGivenUp
		intake.Args["x-max-length"] = objects.NeverFull
	}
	stage := delivery.NewStage(w.names.prefix, w.kind == delayer.Quorum)
	p := topology.Plan{
		Markers: []topology.Exchange{{Name: w.names.marker(), Kind: amqp091.ExchangeFanout, Alternate: w.config()}},
		Exchanges: []topology.Exchange{
			{Name: w.names.intake(), Kind: amqp091.ExchangeFanout, Alternate: stage.Unroutable()},
			{Name: w.names.enter(), Kind: amqp091.ExchangeFanout},
		},
		Queues: []topology.Queue{intake},
		Bindings: []topology.Binding{
			{Source: w.names.intake(), Target: w.names.intake()},
			{Source: w.names.enter(), Target: w.names.intake()},
		},
	}
	for level := range w.schedule.levels {
		name := w.names.wait(level)
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: name, Kind: amqp091.ExchangeFanout})
		p.Queues = append(p.Queues, objects.WaitingQueue(name, w.kind, w.schedule.ttl(level), w.names.intake()))
		p.Bindings = append(p.Bindings, topology.Binding{Source: name, Target: name})
	}
	return p
}
