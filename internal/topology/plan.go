// Package topology holds what a broker must have as data: a Plan of exchanges, queues and bindings. To
// print, apply and remove are uses of that one value.
package topology

import (
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// MaxTTL is the longest x-message-ttl that RabbitMQ takes, ten years of 365 days; a longer one is
// refused with 406 (measured on 3.10.8, 4.0.5 and 4.3.6, classic and quorum queues alike).
const MaxTTL = 10 * 365 * 24 * time.Hour

// Exchange types that we declare.
const (
	Direct = "direct"
	Fanout = "fanout"
	Topic  = "topic"
)

// An Exchange is durable and never deleted by itself.
type Exchange struct {
	Name      string
	Kind      string
	Alternate string // the exchange that takes what this one cannot route, or ""

	// DelayedKind is the type that an x-delayed-message exchange routes as.
	DelayedKind string
}

// args are what the exchange is declared with.
func (x Exchange) args() amqp091.Table {
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
}

// A Binding leads from an exchange to a queue or to another exchange.
type Binding struct {
	Source     string
	Key        string
	Target     string
	ToExchange bool // Target is an exchange
}

// A Marker is an exchange that nothing is ever published to: it says with which configuration the
// objects under a prefix were declared. The broker compares few arguments of an exchange when it is declared
// again; the alternate exchange is one, so the configuration is written there.
type Marker struct {
	Name   string
	Config string // short, because the broker quotes both in 255 bytes; it begins with the prefix, as permissions want
}

func (m Marker) exchange() Exchange { return Exchange{Name: m.Name, Kind: Fanout, Alternate: m.Config} }

// A Plan is a set of broker objects. Those it lists first are declared first.
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

// NeverFull is an x-max-length that is never reached, for quorum queues that others dead-letter to. A quorum queue that was
// full under a policy's max-length tells so to everyone who publishes to it, and takes it back only while it has
// some limit (rabbit_fifo, evaluate_limit; seen on RabbitMQ 3.10.8): when the policy is gone, and there is none, a queue
// that dead-letters to it would go on believing it, and move 32 messages in three minutes.
const NeverFull = int64(1) << 40

// WaitingQueue is a queue where messages wait for ttl and are then dead-lettered to exchange, with the
// routing keys they came with: a dead-letter routing key would cost them CC and BCC.
//
// A quorum queue counts in whole milliseconds and cuts off the fraction both when a message comes and
// when it looks whether it has expired (rabbit_fifo, system_time), so that a message may leave up to
// one millisecond early. One millisecond is therefore added to its TTL. A classic queue counts in
// microseconds.
func WaitingQueue(name string, kind delayer.QueueType, ttl time.Duration, exchange string) Queue {
	args := amqp091.Table{
		"x-queue-type":           string(kind),
		"x-message-ttl":          ttl.Milliseconds(),
		"x-dead-letter-exchange": exchange,
		// Where a policy limits the length, messages shall be refused, not leave early. On classic queues the
		// argument wins over a policy.
		"x-overflow": "reject-publish",
	}
	if kind == delayer.Quorum {
		args["x-message-ttl"] = ttl.Milliseconds() + 1
		args["x-max-length"] = NeverFull
		// It needs reject-publish: without it the broker falls back to at-most-once with no more than a line in its log.
		args["x-dead-letter-strategy"] = "at-least-once"
	}
	return Queue{Name: name, Args: args}
}

// PolicyRemedy is what to do about a policy that applies to objects of a prefix.
func PolicyRemedy(prefix string) string {
	return "see rabbitmqctl list_policies and list_operator_policies, and keep them from names that begin with " + prefix +
		".: with the pattern ^(?!" + strings.ReplaceAll(prefix, ".", `\.`) + `\.)`
}
