package fixedtiers

import (
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/ttl"
	"github.com/delayer-go/delayer/topology"
)

// blueprint knows what the broker must hold for the tiers, here with the default prefix:
//
//	delay                  the marker that holds the configuration
//	delay.enter            where Publish publishes to
//	delay.1m.queue         where its messages wait
//
// and, for routing an existing exchange through a tier without a Delayer:
//
//	delay.route.1m.queue   where its messages wait
//	delay.route            quorum only: what expires there passes through here, so that none stalls a tier
//	delay.route.gate       quorum only: the way to the discard queue, for as long as there is the next one
//	delay.exchange         what is bound here gets them
type blueprint struct {
	prefix    string
	owner     string // the prefix of the delivery stage
	kind      delayer.QueueType
	stage     delivery.Stage
	tiers     ttl.Steps
	maxLength int
	rounding  Rounding
}

// queues are the tiers, and what is declared at Open.
func (b blueprint) queues() ttl.Queues {
	limits := ttl.Guarantees(b.kind)
	limits.Max, limits.Resolution = b.tiers.Waits[len(b.tiers.Waits)-1], time.Millisecond
	limits.Tiers, limits.ExactTiers = slices.Clone(b.tiers.Waits), b.rounding == Exact
	return ttl.Queues{
		Backend: Name, Stage: b.stage, Plan: b.plan(), Limits: limits,
		Steps: b.tiers, Enter: b.prefix + ".enter", Queue: b.name,
	}
}

// config is written into the marker. Two Delayers share queues only if it is equal. It does not
// list the tiers: Delayers with different tiers may share those that they have in common.
func (b blueprint) config() string {
	return fmt.Sprintf("%s:%s,max=%d,%s", b.prefix, b.owner, b.maxLength, b.kind)
}

// plan is what is declared at Open.
func (b blueprint) plan() topology.Plan {
	p := topology.Plan{
		Markers:   []topology.Exchange{{Name: b.prefix, Kind: amqp091.ExchangeFanout, Alternate: b.config()}},
		Exchanges: []topology.Exchange{{Name: b.prefix + ".enter", Kind: amqp091.ExchangeDirect}}, // no alternate exchange: unroutable messages are returned
	}
	for _, tier := range b.tiers.Waits {
		p.Queues = append(p.Queues, b.queue(b.name(tier), tier, b.stage.Exchange()))
	}
	return p
}

// routes are the queues and exchanges that delay messages of an existing exchange by bindings
// alone.
//
// They are separate from the tiers. Otherwise a message that a Delayer delivers to such an exchange
// could expire twice in one queue, and the broker silently drops such a message. Also, neither side
// can fill or stall the queues of the other.
//
// What quorum queues dead-letter goes to the discard queue as well as to the exchange that people
// bind to. That exchange may route nothing, and messages that no queue takes would stall a tier
// (see delivery.Stage.Discard).
func (b blueprint) routes() topology.Plan {
	route, exchange := b.prefix+".route", b.prefix+".exchange"
	p := topology.Plan{Exchanges: []topology.Exchange{{Name: exchange, Kind: amqp091.ExchangeTopic, Alternate: b.stage.Unroutable()}}}
	after := exchange
	if b.kind == delayer.Quorum {
		after = route
		p = p.Add(b.stage.Copying(route, exchange))
	}
	for _, tier := range b.tiers.Waits {
		p.Queues = append(p.Queues, b.queue(route+"."+objects.DurationName(tier)+".queue", tier, after))
	}
	return ttl.Optional(p)
}

func (b blueprint) name(tier time.Duration) string {
	return b.prefix + "." + objects.DurationName(tier) + ".queue"
}

// queue is a tier.
func (b blueprint) queue(name string, tier time.Duration, after string) topology.Queue {
	q := objects.WaitingQueue(name, b.kind, tier, after)
	q.Args["x-max-length"] = int64(b.maxLength)
	return q
}
