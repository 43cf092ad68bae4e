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
	// Limits tells what the strategy can do on this broker.
	Limits() delayer.Limits
	// Plan is what must be declared before anything is published. It leads to the delivery exchange.
	Plan() topology.Plan
	// Growth is what is added to a message while it waits.
	Growth() message.Growth
	// Enter returns how a message is published, having declared what that needs beyond Plan.
	Enter(ctx context.Context, m Message) (Entry, error)
}

// Removable is a [Strategy] that may declare queues beyond its Plan.
type Removable interface {
	// All is the plan with all of them.
	All() topology.Plan
}

// A Router is a [Strategy] whose messages need bindings between its queues that are declared on use.
type Router interface {
	// Leaving are the bindings that lead on from a waiting queue, for keys of so many words.
	Leaving(queue string, words int) topology.Plan
}

// A Reckoner is a [Strategy] that knows more of a misrouted message than its x-death says.
type Reckoner interface {
	// Remaining is the part of the delay that the message has not waited for yet; ok is false where
	// that is not known.
	Remaining(headers amqp091.Table) (remaining time.Duration, ok bool)
}

// A Message is what a Strategy knows of a message.
type Message struct {
	Delay        time.Duration // positive and within Limits; a tier where there are tiers
	Words        int           // the number of words that our routing keys must have
	Destinations []any         // the delivery keys, strings: where the message goes in the end
	Envelope     message.Envelope
	BCC          []any // the user's own, strings
}

// An Entry is how a message is published.
type Entry struct {
	Exchange string
	Keys     []any         // strings; BCC keys beside the user's own
	Headers  amqp091.Table // added to the message's
	Optional bool          // not mandatory: the exchange would return every message
	Foreign  bool          // the exchange is not ours
}

// AnyPriority is the [delayer.Limits].MaxPriority of a backend whose waiting messages never block one
// another.
const AnyPriority = math.MaxUint8

// destinations lead messages from the delivery exchange to where they go.
type destinations interface {
	// Accept says why messages for an exchange cannot be taken.
	Accept(exchange string) error
	// Bind makes sure, give or take a tenth of a second, that a destination exists and can be
	// reached. It returns the delivery keys that lead there.
	Bind(ctx context.Context, exchange, key string, copies []string, delay time.Duration) ([]any, error)
	// Reset makes the next Bind of each destination ask the broker.
	Reset()
	Close()
}

// bound are the destinations of every other strategy: any.
type bound struct{ *delivery.Destinations }

func (bound) Accept(string) error { return nil }

// Direct is a [Strategy] whose exchange leads to its only destination by itself: no delivery stage is
// declared for it, and nothing is bound.
type Direct interface {
	Strategy
	// Accept says why messages for an exchange cannot be taken.
	Accept(exchange string) error
	// Exists makes sure, give or take a tenth of a second, that the destination is there.
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
