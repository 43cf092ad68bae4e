// Package topology describes exchanges, queues and bindings as data. A [Plan] is what a backend
// declares; package backend returns it for a configuration:
//
//	plan, err := backend.Topology(cfg)
//	…
//	err = plan.WriteText(os.Stdout)
//
// A Plan can be written for people, and for rabbitmqctl and the management plugin to import. It asks
// no broker: backend.Apply, backend.Verify and backend.Remove do. Bindings to destinations are in no
// Plan: they are made when a destination is first used.
package topology

import amqp091 "github.com/rabbitmq/amqp091-go"

// An Exchange is durable.
type Exchange struct {
	Name      string
	Kind      string // direct, fanout, topic or x-delayed-message
	Alternate string // the alternate exchange for unroutable messages, or ""

	// DelayedKind is the x-delayed-type of an x-delayed-message exchange.
	DelayedKind string

	// AutoDelete: the broker deletes it with the last binding that leads on from it.
	AutoDelete bool

	// Optional: administrators bind it, and Open does not declare it.
	Optional bool
}

// Args are the arguments of the declaration.
func (x Exchange) Args() amqp091.Table {
	args := amqp091.Table{}
	if x.Alternate != "" {
		args["alternate-exchange"] = x.Alternate
	}
	if x.DelayedKind != "" {
		args["x-delayed-type"] = x.DelayedKind
	}
	return args
}

// A Queue is durable, not exclusive and never deleted by itself.
type Queue struct {
	Name string
	Args amqp091.Table

	// Role is empty where delayed messages wait. Otherwise it says what the queue is for: hidden
	// (delayed messages wait, and AMQP does not count them), intake (controllers consume it),
	// candidates (controllers are counted by it), misrouted (a Delayer sends on what is here),
	// unroutable (keeps messages without a destination), discard (drops its messages), clock (tells
	// the time) or counts (keeps what a controller has counted).
	Role string

	// Optional: administrators bind it, and Open does not declare it.
	Optional bool
}

// A Binding leads from an exchange to a queue or to another exchange.
type Binding struct {
	Source     string
	Key        string
	Target     string
	ToExchange bool // Target is an exchange
}

// A Plan is a set of exchanges, queues and bindings. They are declared in the order of the fields,
// but the queues before the exchanges where a quorum queue is missing, and in each field in its own
// order.
type Plan struct {
	// Markers hold the configuration of the objects under a prefix. Nothing is ever published to
	// them. The configuration is written as the alternate exchange, one of the few arguments that the
	// broker compares when an exchange is declared again. It is short, because the broker quotes both
	// in 255 bytes, and begins with the prefix, as permissions require.
	Markers   []Exchange
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
}

// Add returns p with the objects of q after its own.
func (p Plan) Add(q Plan) Plan {
	return Plan{
		Markers:   append(p.Markers[:len(p.Markers):len(p.Markers)], q.Markers...),
		Exchanges: append(p.Exchanges[:len(p.Exchanges):len(p.Exchanges)], q.Exchanges...),
		Queues:    append(p.Queues[:len(p.Queues):len(p.Queues)], q.Queues...),
		Bindings:  append(p.Bindings[:len(p.Bindings):len(p.Bindings)], q.Bindings...),
	}
}
