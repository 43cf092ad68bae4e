package record

import (
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/topology"
)

// Back is the name of the queue by which messages come back to a bridge: those whose Expiration
// passed while no bridge ran, those that only the bridge can deliver as they were, and parked ones
// that an operator sends again.
func Back(prefix, exchange string) string { return Bridge(prefix, exchange) + ".back" }

// Parked is the name of the queue for messages that a bridge cannot pass on.
func Parked(prefix, exchange string) string { return Bridge(prefix, exchange) + ".parked" }

// BridgeArguments are those of the bridge's queue, which never drops a message. The Expiration of a
// message, which the plugin does not count, runs there: what expires goes to the queue Back.
func BridgeArguments(queue string) amqp091.Table {
	return amqp091.Table{
		"x-queue-type":           "quorum",
		"x-delivery-limit":       topology.NeverGivenUp,
		"x-max-length":           topology.NeverFull,
		"x-overflow":             "reject-publish",
		"x-dead-letter-exchange": expired(queue),
		"x-dead-letter-strategy": "at-least-once",
	}
}

// expired is the name of the exchange that takes what expires in a bridge's queue.
func expired(bridge string) string { return bridge + ".expired" }

// BridgeSide lists what a bridge needs beside its queue.
func BridgeSide(prefix, exchange string) topology.Plan {
	back, parked, expired := Back(prefix, exchange), Parked(prefix, exchange), expired(Bridge(prefix, exchange))
	args := amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": topology.NeverGivenUp, "x-overflow": "reject-publish"}
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: expired, Kind: topology.Fanout}},
		Queues:    []topology.Queue{{Name: back, Args: args}, {Name: parked, Args: args}},
		Bindings:  []topology.Binding{{Source: expired, Target: back}},
	}
}

// BridgePlan lists all that a bridge needs but the exchange behind: its queue, and BridgeSide.
func BridgePlan(prefix, exchange string) topology.Plan {
	queue := Bridge(prefix, exchange)
	return BridgeSide(prefix, exchange).Add(topology.Plan{Queues: []topology.Queue{{Name: queue, Args: BridgeArguments(queue)}}})
}
