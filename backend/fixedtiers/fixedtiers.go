// Package fixedtiers delays messages in one queue per tier: a message waits one minute in delay.1m.queue, five
// in delay.5m.queue, and so on. It is the simplest arrangement there is, and the cheapest for the broker:
// one hop, whatever the delay.
//
// # How a message waits
//
// Each tier is a queue whose messages expire after the tier's duration. It has no dead-letter routing key, so
// that a message keeps the key it was published with. All messages in a queue wait equally long: none
// holds up another.
//
//	Publish ─→ delay.enter ─→ delay.1m.queue ─TTL→ <prefix>.delivery ─→ destination
//
// # Without a Delayer
//
// Who cannot change a producer can route an existing exchange through a tier with bindings alone. For that
// [Describe] has a second set of queues, which Open does not declare: `delayer topology print --backend fixedtiers
// --format definitions` prints it for the broker to import. Bind such a queue to the exchange, and bind what is to
// get the messages to delay.exchange, with the keys they are published with. See docs/tiers.md.
//
//	an existing exchange ─→ delay.route.1m.queue ─TTL→ delay.exchange ─→ as bound
//
// # Limits
//
// The delays are the tiers; one in between waits until the next (Rounding up), or is refused (Exact). One
// longer than the last tier is refused. A tier is a whole number of milliseconds, from 1 ms to ten
// years; there are at most 100. Two Delayers may share queues and have different tiers, as long as
// everything else agrees.
//
// A tier holds MaxLength messages. When it is full, Publish returns [delayer.ErrRefused], which names the queue, and
// nothing is lost. Quorum queues take some more before they refuse. With Overflow Early, on classic queues only,
// the oldest message leaves before its time instead: the one exception to "never early", off by default.
//
// # Guarantees
//
// Quorum queues (the default) are replicated and dead-letter at least once: a confirmed message survives
// crashes, and may be delivered twice after one. What waits in classic queues survives a clean restart; what
// comes due while the broker starts is lost where its destination is not ready yet, as quorum queues are not (750 of 5,533
// messages in four restarts under load). A crash loses the messages that are moving on or
// whose write had not reached the disk.
//
// # What it needs
//
// A stock RabbitMQ, 3.10 or later. Permissions: configure, write and read on names that begin with either prefix
// (^delay covers both defaults), and write on the destinations.
//
// # What the consumer sees
//
// See the package comment of delayer: [delayer.Header], x-death and its kin, nothing else.
package fixedtiers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// Name is what the configuration calls this backend.
const Name = "fixedtiers"

// Rounding is what becomes of a delay that is no tier.
type Rounding string

// The two ways. In both a delay above the last tier is refused.
const (
	Up    Rounding = "up"    // it waits until the next tier
	Exact Rounding = "exact" // it is refused
)

// Overflow is what happens when a tier is full.
type Overflow string

// The two ways.
const (
	Refuse Overflow = "refuse" // Publish is refused
	Early  Overflow = "early"  // the oldest message leaves before its time; classic queues only
)

// Config is the shape of the tiers. The zero value of a field is not a default: backend.Config has those.
type Config struct {
	Prefix    string          // begins the names of the tiers' queues and exchanges, as in delay.1m.queue
	Tiers     []time.Duration // whole milliseconds, in any order
	Rounding  Rounding
	MaxLength int // messages in one tier
	Overflow  Overflow
}

// Tiers is a [delayer.Delayer] with a queue per delay.
type Tiers struct {
	*engine.Engine
	blueprint blueprint
}

var _ delayer.Delayer = (*Tiers)(nil)

// Open connects, declares the tiers and returns them. Errors: ErrConfig names the field that is wrong;
// ErrUnavailable and ErrAccess concern the broker; ErrConflict says that objects of these names exist with
// another configuration.
func Open(ctx context.Context, opts engine.Options, cfg Config) (*Tiers, error) {
	b, err := newBlueprint(opts, cfg)
	if err != nil {
		return nil, err
	}
	opts.Broker.Backend = Name
	c, err := engine.Connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	e, err := c.Start(ctx, &strategy{
		blueprint: b,
		links:     newLinks(b, c.Declare),
		limits:    guarantees(b, cfg.Rounding, c.MaxPriority()),
	})
	if err != nil {
		return nil, err
	}
	return &Tiers{Engine: e, blueprint: b}, nil
}

// Describe says what Open would declare, with the queues for routing without a Delayer, and what the Delayer could
// do. It asks no broker.
func Describe(opts engine.Options, cfg Config) (engine.Description, error) {
	b, err := newBlueprint(opts, cfg)
	if err != nil {
		return engine.Description{}, err
	}
	own := b.plan().Add(b.routes())
	if opts.Imported {
		all := make([]int, len(b.tiers))
		for i := range all {
			all[i] = i
		}
		own = own.Add(engine.Complete(all, b.steps))
	}
	plan, err := opts.Plan(own)
	return engine.Description{Plan: plan, Limits: guarantees(b, cfg.Rounding, engine.AnyPriority)}, err
}

// Publish implements [delayer.Delayer].
func (t *Tiers) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	if err := t.checkDestination(exchange, key, msg); err != nil {
		return err
	}
	err := t.Engine.Publish(ctx, exchange, key, delay, msg)
	var known *delayer.Error
	if delay > 0 && errors.Is(err, delayer.ErrRefused) && errors.As(err, &known) {
		tier := t.blueprint.tiers[t.blueprint.next(delay)]
		known.Hint = fmt.Sprintf("queue %q takes no more: is it full (max_length: %d)? Publish again later, or spread the delays over more tiers; or its replicas lack a majority",
			t.blueprint.names.queue(tier), t.blueprint.maxLength)
	}
	return err
}

// checkDestination keeps a message from going round: one that was to be delivered to a tier would expire
// there, and its delivery key would lead it there again.
func (t *Tiers) checkDestination(exchange, key string, msg amqp091.Publishing) error {
	names := []string{exchange}
	if exchange == "" {
		names = append(message.Copies(msg.Headers), key)
	}
	own := t.blueprint.names.prefix + "."
	for _, name := range names {
		if strings.HasPrefix(name, own) {
			return &delayer.Error{
				Op: "publish", Backend: Name, Object: fmt.Sprintf("to %.300q", name), Kind: delayer.ErrInvalid,
				Cause: fmt.Errorf("names that begin with %q belong to the tiers", own),
			}
		}
	}
	return nil
}

// RemoveTopology deletes the tiers and everything that waits in them, and the queue for unroutable
// messages. Tiers that only another Delayer has stay, and so do the queues for routing without one.
func (t *Tiers) RemoveTopology(ctx context.Context) error {
	return t.Engine.RemoveTopology(ctx, topology.Plan{})
}

func badConfig(field, format string, args ...any) error {
	return &delayer.Error{Op: "open", Object: Name + "." + field, Kind: delayer.ErrConfig, Cause: fmt.Errorf(format, args...)}
}
