package engine

import (
	"context"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// A Strategy is a backend's part of a Delayer: where messages wait.
type Strategy interface {
	// Limits returns what the strategy can do on this broker.
	Limits() delayer.Limits
	// Plan lists the objects that are declared before anything is published. They lead to the
	// delivery exchange.
	Plan() topology.Plan
	// Growth says how much larger a message becomes while it waits.
	Growth() message.Growth
	// Enter returns how to publish a message. It first declares the bindings beyond Plan that the
	// message needs.
	Enter(ctx context.Context, m Wait) (Entry, error)
}

// A Submitter is a [Strategy] that publishes what waits in messages of its own, and is not asked
// by Enter.
type Submitter interface {
	// Submit hands a message over, behind those of earlier calls. The message is not read any more
	// once it has returned. Its errors, and those of Wait, are those of broker.Publisher.
	Submit(ctx context.Context, m Wait, msg amqp091.Publishing) (Pending, error)
}

// A Pending is a message that was submitted: see broker.Pending.
type Pending interface {
	// Wait returns what became of the message. It is called once.
	Wait(ctx context.Context) error
}

// A Router is a [Strategy] whose messages need bindings between its queues that are declared on
// use.
type Router interface {
	// Leaving returns the bindings that lead on from a waiting queue, for keys of so many words.
	Leaving(queue string, words int) topology.Plan
}

// A Reckoner is a [Strategy] that knows more about a misrouted message than its x-death shows.
type Reckoner interface {
	// Remaining returns the part of the delay that the message has not waited for. ok is false if
	// that is unknown.
	Remaining(headers amqp091.Table) (remaining time.Duration, ok bool)
}

// A Wait is what a Strategy needs to know of a message that is to wait.
type Wait struct {
	Delay        time.Duration // positive and within Limits; a tier where there are tiers
	Key          string        // the user's routing key
	Words        int           // the number of words that our routing keys must have
	Destinations []any         // the delivery keys of its destinations, strings
	Envelope     message.Envelope
	Due          time.Time // by the clock of this process; Envelope's may be another's
	BCC          []any     // the user's own, strings
	Priority     uint8
}

// AnyPriority is the [delayer.Limits].MaxPriority of a backend whose waiting messages never block
// one another.
const AnyPriority = math.MaxUint8

// An Entry is how a message is published.
type Entry struct {
	Exchange string
	Keys     []any         // strings; BCC keys beside the user's own
	Headers  amqp091.Table // added to the message's
	Proof    broker.Proof  // must hold where the message is written to; nil: nothing must

	Optional bool // not mandatory: the exchange would return every message
	Ordered  bool // in the queue no message may overtake another: it has no priority there
}
