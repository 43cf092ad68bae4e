// Package topology describes broker objects as data. A Plan lists exchanges, queues and bindings.
// Plans are printed, applied, checked and removed.
package topology

import (
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// MaxTTL is the longest x-message-ttl that RabbitMQ accepts, ten years of 365 days. It refuses a
// longer one with 406 (measured on 3.10.8, 4.0.5 and 4.3.6, for classic and quorum queues).
const MaxTTL = 10 * 365 * 24 * time.Hour

// Exchange types that we declare.
const (
	Direct = "direct"
	Fanout = "fanout"
	Topic  = "topic"
)

// Stream is the x-queue-type of a queue that keeps what was read from it.
const Stream = "stream"

// An Exchange is durable and never deleted by itself.
type Exchange struct {
	Name      string
	Kind      string
	Alternate string // the alternate exchange for unroutable messages, or ""

	// DelayedKind is the x-delayed-type of an x-delayed-message exchange.
	DelayedKind string

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
	Role Role

	// Optional: administrators bind it, and Open does not declare it.
	Optional bool
}

// A Role is what a queue is for.
type Role string

// The roles.
const (
	Waiting    Role = ""           // delayed messages wait here
	Intake     Role = "intake"     // controllers consume it
	Misrouted  Role = "misrouted"  // a Delayer sends on what is here
	Unroutable Role = "unroutable" // keeps messages without a destination
	Discard    Role = "discard"    // drops its messages
	Probe      Role = "probe"      // for finding policies
	Record     Role = "record"     // a stream that Delayers read: nothing waits in it
)

// A Binding leads from an exchange to a queue or to another exchange.
type Binding struct {
	Source     string
	Key        string
	Target     string
	ToExchange bool // Target is an exchange
}

// A Marker is an exchange that holds the configuration of the objects under a prefix. Nothing is
// ever published to it. The configuration is written as its alternate exchange, one of the few
// arguments that the broker compares when an exchange is declared again.
type Marker struct {
	Name   string
	Config string // short, because the broker quotes both in 255 bytes; it begins with the prefix, as permissions require
}

func (m Marker) exchange() Exchange { return Exchange{Name: m.Name, Kind: Fanout, Alternate: m.Config} }

// A Plan is a set of broker objects. They are declared in the order of the fields.
type Plan struct {
	Markers   []Marker
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

// NeverFull is an x-max-length that is never reached, for quorum queues that others dead-letter to.
// A quorum queue that becomes full under a policy's max-length tells its publishers, and tells them
// otherwise only while it has some limit (rabbit_fifo, evaluate_limit; seen on RabbitMQ 3.10.8).
// Without a limit of its own, once the policy is gone, queues that dead-letter to it would still
// take it for full, and move 32 messages in three minutes.
const NeverFull = int64(1) << 40

// NeverGivenUp is an x-delivery-limit that is never reached. From RabbitMQ 4.0 on a quorum queue
// drops a message after 20 deliveries by default. To look at a message is a delivery, and so is each
// that a consumer gives back when it stops.
const NeverGivenUp = int64(1) << 30

// WaitingQueue is a queue where messages wait for ttl and are then dead-lettered to exchange. They
// keep their routing keys: a dead-letter routing key would remove CC and BCC.
//
// A quorum queue counts in whole milliseconds. It cuts off the fraction when a message comes and
// when it checks for expiry (rabbit_fifo, system_time), so a message may leave up to one
// millisecond early. So one millisecond is added to its TTL. A classic queue counts in
// microseconds.
func WaitingQueue(name string, kind delayer.QueueType, ttl time.Duration, exchange string) Queue {
	args := amqp091.Table{
		"x-queue-type":           string(kind),
		"x-message-ttl":          ttl.Milliseconds(),
		"x-dead-letter-exchange": exchange,
		// Under a policy with max-length messages are refused and do not leave early. On classic
		// queues the argument wins over a policy.
		"x-overflow": "reject-publish",
	}
	if kind == delayer.Quorum {
		args["x-message-ttl"] = ttl.Milliseconds() + 1
		args["x-max-length"] = NeverFull
		// Otherwise the node that we are connected to leads them all.
		args["x-queue-leader-locator"] = "balanced"
		// It needs reject-publish. Without that the broker silently falls back to at-most-once.
		args["x-dead-letter-strategy"] = "at-least-once"
	}
	return Queue{Name: name, Args: args}
}

// PolicyRemedy says what to do about a policy that applies to objects of a prefix.
func PolicyRemedy(prefix string) string {
	return "see rabbitmqctl list_policies and list_operator_policies, and keep them from names that begin with " + prefix +
		".: with the pattern ^(?!" + strings.ReplaceAll(prefix, ".", `\.`) + `\.)`
}
