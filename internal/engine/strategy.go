package engine

import (
	"context"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
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
	Enter(ctx context.Context, m Message) (Entry, error)
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

// A Message is the part of a message that a Strategy needs.
type Message struct {
	Delay        time.Duration // positive and within Limits; a tier where there are tiers
	Key          string        // the user's routing key
	Words        int           // the number of words that our routing keys must have
	Destinations []any         // the delivery keys of its destinations, strings
	Envelope     message.Envelope
	BCC          []any // the user's own, strings
}

// AnyPriority is the [delayer.Limits].MaxPriority of a backend whose waiting messages never block
// one another.
const AnyPriority = math.MaxUint8

// destinations lead messages from the delivery exchange on.
type destinations interface {
	// Accept returns an error if messages for an exchange cannot be taken.
	Accept(exchange string) error
	// Bind makes sure that a destination exists and is bound, as of at most 100 ms ago. It returns
	// the delivery keys that lead there.
	Bind(ctx context.Context, exchange, key string, copies []string, delay time.Duration) ([]any, error)
	// Reset makes the next Bind of each destination ask the broker.
	Reset()
	Close()
}

// bound are the destinations of all other strategies: any exchange or queue.
type bound struct{ *delivery.Destinations }

func (bound) Accept(string) error { return nil }

// Direct is a [Strategy] whose exchange is its only destination. No delivery stage is declared for
// it, and nothing is bound.
type Direct interface {
	Strategy
	// Accept returns an error if messages for an exchange cannot be taken.
	Accept(exchange string) error
	// Exists makes sure that the destination exists, as of at most 100 ms ago.
	Exists(ctx context.Context) error
	// Reset makes the next Exists ask the broker.
	Reset()
}

// direct are the destinations of a Direct strategy.
type direct struct{ Direct }

func (d direct) Bind(ctx context.Context, _, _ string, _ []string, _ time.Duration) ([]any, error) {
	return nil, d.Exists(ctx)
}

func (direct) Close() {}
