// Package record keeps the state of a migration in the broker: which step an exchange is in, and
// how it was before. It also is the lock: one tool at a time works on an exchange.
package record

import (
	"crypto/sha256"
	"encoding/hex"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/topology"
)

// Queue is the name of the queue that holds the record of an exchange.
func Queue(prefix, exchange string) string { return Names(prefix) + hash(exchange) }

// Bridge is the name of the queue that a bridge consumes: all that is published to the exchange.
func Bridge(prefix, exchange string) string { return Names(prefix) + "bridge." + hash(exchange) }

// Behind is the name of the exchange that has the former bindings: during a switch, so that one
// binding leads to all of them at once, and as long as a bridge runs.
func Behind(prefix, exchange string) string { return Names(prefix) + "behind." + hash(exchange) }

// Hold is the name of an exchange that routes nothing. While the exchange is away, exchanges bound
// to it are bound there, so that none of them deletes itself.
func Hold(prefix, exchange string) string { return Names(prefix) + "hold." + hash(exchange) }

// Lock is the name of a queue that belongs to the connection of the tool that works on the exchange.
func Lock(prefix, exchange string) string { return Queue(prefix, exchange) + ".lock" }

// Names is how the names of all objects of migrations begin.
func Names(prefix string) string { return prefix + ".migration." }

// hash stands for a name that may be as long as a name of ours may be at most. 64 bits tell apart
// more exchanges than a broker has.
func hash(exchange string) string {
	sum := sha256.Sum256([]byte(exchange))
	return hex.EncodeToString(sum[:8])
}

// Back is the name of the queue by which messages come back to a bridge: those whose Expiration
// passed while no bridge ran, those that only the bridge can deliver as they were, and parked ones
// that an operator sends again.
func Back(prefix, exchange string) string { return Bridge(prefix, exchange) + ".back" }

// Parked is the name of the queue for messages that a bridge cannot pass on.
func Parked(prefix, exchange string) string { return Bridge(prefix, exchange) + ".parked" }

// BridgeNames are the queues of a bridge, which is an entry.
func BridgeNames(prefix, exchange string) entry.Names {
	return entry.Names{Queue: Bridge(prefix, exchange), Back: Back(prefix, exchange), Parked: Parked(prefix, exchange)}
}

func expired(queue string) string { return queue + ".expired" }

// BridgeArguments are those of the bridge's queue.
func BridgeArguments(queue string) amqp091.Table { return entry.QueueArguments(expired(queue)) }

// BridgeSide lists what a bridge needs beside its queue.
func BridgeSide(prefix, exchange string) topology.Plan {
	return entry.Side(BridgeNames(prefix, exchange), expired(Bridge(prefix, exchange)))
}

// BridgePlan lists all that a bridge needs but the exchange behind: its queue, and BridgeSide.
func BridgePlan(prefix, exchange string) topology.Plan {
	queue := Bridge(prefix, exchange)
	return BridgeSide(prefix, exchange).Add(topology.Plan{Queues: []topology.Queue{{Name: queue, Args: BridgeArguments(queue)}}})
}
