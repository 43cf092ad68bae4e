// Package delivery is the last stage of every backend. A message arrives at the delivery exchange
// once its delay has passed, with a key that names its destination. Bindings lead from there to the
// destinations; each is made when it is first used. Messages that cannot be routed go to queues of
// this stage, from where a Mover sends on those whose destination exists.
//
//	waiting queues → <prefix>.delivery ─ key of a queue ────→ that queue
//	                        │  └──────── key of an exchange ─→ that exchange, and <prefix>.delivery.fork
//	                        └ nothing matches ───────────────→ exchange <prefix>.unroutable
//
//	<prefix>.delivery.fork ┬→ <prefix>.delivery.exchanges ┬ key of an exchange → that exchange
//	                       │                              └ nothing matches ───→ exchange <prefix>.unroutable
//	                       └→ <prefix>.delivery.fork.gate ─ always → exchange and queue <prefix>.discard
//
// The broker takes a message to each exchange once, by whatever ways. The fork is left out where
// messages come from queues that dead-letter at most once.
//
//	exchange <prefix>.unroutable → <prefix>.misrouted ─ Mover ┬ sends it on to its destination
//	                                                          └ <prefix>.unroutable.keep → <prefix>.unroutable
package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// A Stage names the broker objects of the delivery stage under one prefix.
type Stage struct {
	prefix  string
	discard bool
}

// NewStage returns the stage of a prefix. atLeastOnce: messages come from queues that dead-letter
// at least once.
func NewStage(prefix string, atLeastOnce bool) Stage {
	return Stage{prefix: prefix, discard: atLeastOnce}
}

// Exchange is where messages whose delay has passed are dead-lettered to.
func (s Stage) Exchange() string { return s.prefix + ".delivery" }

// Unroutable is the name of the fanout exchange that is the alternate exchange of every exchange of
// ours. It leads to the misrouted queue. A queue of the same name keeps the messages that an
// operator must look at.
func (s Stage) Unroutable() string { return s.prefix + ".unroutable" }

// Misrouted is the queue for messages that an exchange of ours could not route. A Mover
// consumes it and sends each message on, or moves it to the unroutable queue. It has a single active
// consumer: one Mover of a prefix at a time.
func (s Stage) Misrouted() string { return s.prefix + ".misrouted" }

// Keep is the fanout exchange in front of the unroutable queue. It has no alternate exchange: a
// message that it cannot route comes back to its publisher.
func (s Stage) Keep() string { return s.prefix + ".unroutable.keep" }

// Exchanges is an exchange that leads on to the users' exchanges, as the delivery exchange does. It
// is there so that a message to a deleted exchange matches nothing here, and goes to the alternate
// exchange.
func (s Stage) Exchanges() string { return s.prefix + ".delivery.exchanges" }

// Discard is a queue that drops its messages, and the fanout exchange that leads there. A queue
// that dead-letters at least once keeps a message that no queue takes, and 32 such messages stall it
// (rabbit_fifo_dlx_worker). So messages to a user's exchange go here too: what that does not route
// is dropped, as in a plain publish. docs/design.md says more.
//
// It is a quorum queue with a TTL of 0: without the node of a classic one nothing here could be
// routed, confirmed or declared. It costs the broker 27 µs a message, a classic queue 18 µs
// (RabbitMQ 3.10.8, two cores).
func (s Stage) Discard() string { return s.prefix + ".discard" }

// fork is where the ways to the users' exchanges and to the discard queue part.
func (s Stage) fork() string { return s.Exchange() + ".fork" }

// beforeExchanges is where the delivery exchange leads to for a user's exchange.
func (s Stage) beforeExchanges() string {
	if s.discard {
		return s.fork()
	}
	return s.Exchanges()
}

// gateKey leads on from a gate. Publish refuses keys that begin so.
const gateKey = message.Reserved + ":gate"

// Copying lists what leads messages from an exchange of ours to another one, with a copy to the
// discard queue. The copy must never be all that is left of a message: the waiting queue would take
// it for delivered. So its way begins at a gate, <from>.gate, an auto-delete exchange whose only
// binding leads to the target, with a key that no message has: all goes to its alternate exchange.
// With the target the broker deletes that binding, the gate, and the binding to the gate, in one
// transaction. Nothing may lead to the gate before something leads to the target: the order of the
// bindings matters.
//
// A message that has no other way is lost if it comes in the instant in which the target is deleted,
// or after somebody has removed the binding to the target alone.
func (s Stage) Copying(from, target string) topology.Plan {
	gate := from + ".gate"
	return topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: from, Kind: amqp091.ExchangeFanout, Alternate: s.Unroutable()},
			{Name: gate, Kind: amqp091.ExchangeDirect, Alternate: s.Discard(), AutoDelete: true},
		},
		Bindings: []topology.Binding{
			{Source: gate, Key: gateKey, Target: target, ToExchange: true},
			{Source: from, Target: target, ToExchange: true},
			{Source: from, Target: gate, ToExchange: true},
		},
	}
}

// Keeping returns a queue that never drops a message.
func Keeping(name string) topology.Queue {
	return topology.Queue{Name: name, Args: amqp091.Table{
		"x-queue-type":     string(delayer.Quorum),
		"x-delivery-limit": objects.NeverGivenUp,
		"x-overflow":       "reject-publish", // under a policy with max-length: refuse, do not drop
		"x-max-length":     objects.NeverFull,
	}}
}

// Plan lists the objects that must exist before any destination is bound.
func (s Stage) Plan() topology.Plan {
	misrouted, unroutable := Keeping(s.Misrouted()), Keeping(s.Unroutable())
	misrouted.Role, unroutable.Role = role.Misrouted, role.Unroutable
	misrouted.Args["x-single-active-consumer"] = true
	p := topology.Plan{
		Exchanges: []topology.Exchange{
			{Name: s.Unroutable(), Kind: amqp091.ExchangeFanout},
			{Name: s.Keep(), Kind: amqp091.ExchangeFanout},
			{Name: s.Exchange(), Kind: amqp091.ExchangeDirect, Alternate: s.Unroutable()},
			{Name: s.Exchanges(), Kind: amqp091.ExchangeDirect, Alternate: s.Unroutable()},
		},
		Queues: []topology.Queue{misrouted, unroutable},
		Bindings: []topology.Binding{
			{Source: s.Unroutable(), Target: s.Misrouted()},
			{Source: s.Keep(), Target: s.Unroutable()},
		},
	}
	if !s.discard {
		return p
	}
	p = p.Add(topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.Discard(), Kind: amqp091.ExchangeFanout}},
		Queues: []topology.Queue{{Name: s.Discard(), Role: role.Discard, Args: amqp091.Table{
			"x-queue-type":  string(delayer.Quorum),
			"x-message-ttl": int64(0),
		}}},
		Bindings: []topology.Binding{{Source: s.Discard(), Target: s.Discard()}},
	})
	fork := s.Copying(s.fork(), s.Exchanges())
	fork.Exchanges[0].Alternate = "" // what comes here has another way to its exchange
	return p.Add(fork)
}

// Leads reports whether a binding may be one that leads from this stage to a destination.
func (s Stage) Leads(b topology.Binding) bool {
	return (b.Source == s.Exchange() || b.Source == s.Exchanges()) && strings.HasPrefix(b.Key, keyStart)
}

// bindings lead messages with the key to the destination. The broker deletes all but the last one
// of an exchange with it.
//
// Two ways lead to an exchange: what the fork's gaps lose (see [Stage.Copying]) comes by the other
// one. The first binding is before the second: without it a message that the second one delivers
// would be misrouted too, and come twice.
func (s Stage) bindings(exchange, queue, key string) []topology.Binding {
	if exchange == "" {
		return []topology.Binding{{Source: s.Exchange(), Key: key, Target: queue}}
	}
	return []topology.Binding{
		{Source: s.Exchanges(), Key: key, Target: exchange, ToExchange: true},
		{Source: s.Exchange(), Key: key, Target: exchange, ToExchange: true},
		{Source: s.Exchange(), Key: key, Target: s.beforeExchanges(), ToExchange: true},
	}
}

const keyStart = message.Reserved + ":="

// Key returns the delivery key of a destination: a hash, because a name may have dots and up to 255
// bytes. 128 bits of SHA-256 are enough to distinguish any two destinations.
func Key(exchange, queue string, words int) string {
	name := "q" + queue
	if exchange != "" {
		name = "x" + exchange
	}
	sum := sha256.Sum256([]byte(name))
	return message.Pad(keyStart+base64.RawURLEncoding.EncodeToString(sum[:16]), words)
}

// notFound is the broker's 404. The name is quoted as it is and may have quotes of its own.
var notFound = regexp.MustCompile(`^NOT_FOUND - no exchange '((?s).*)' in vhost '`)

// owns reports whether the broker's 404 is about an exchange of the stage.
func (s Stage) owns(reason string) bool {
	at := notFound.FindStringSubmatch(reason)
	if at == nil {
		return false
	}
	return at[1] == s.Exchange() || at[1] == s.Exchanges() || at[1] == s.beforeExchanges()
}

// A Presence says whether a destination exists.
type Presence int

// The answers of Exists.
const (
	Unknown Presence = iota // the broker refuses to answer
	Gone
	There
)

// Exists asks the broker for a destination: an exchange, or with "" the queue that key names. The
// error is that of broker.Explain.
func Exists(ctx context.Context, control *broker.Control, exchange, key string) (Presence, error) {
	const durable, autoDelete, internal, waitForAnswer = true, false, false, false
	var err error
	if exchange == "" {
		_, err = control.Queue(ctx, key)
	} else { // the broker compares only the name in a passive declaration
		err = control.Do(ctx, func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, "direct", durable, autoDelete, internal, waitForAnswer, nil)
		})
	}
	if err == nil {
		return There, nil
	}
	switch broker.Code(err) {
	case amqp091.ResourceLocked:
		return There, nil
	case amqp091.NotFound:
		return Gone, nil
	case amqp091.AccessRefused:
		return Unknown, nil
	}
	return Unknown, broker.Explain("look at", "", Place(exchange, key), err)
}

// Place names a destination in errors and logs.
func Place(exchange, key string) string {
	if exchange == "" {
		return fmt.Sprintf("queue %.300q", key)
	}
	return fmt.Sprintf("exchange %.300q", exchange)
}
