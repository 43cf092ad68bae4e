// Package binaryladder delays messages with nothing but TTL and dead-lettering: one waiting queue per
// bit of the delay.
//
// # How a message waits
//
// Level k of the ladder is a queue whose messages expire after 2^k ticks. A delay, counted in ticks, is
// a binary number; the message waits in the queues of its set bits, highest first, one after the
// other: 10 s is 8 s and then 2 s. Every message in a queue waits equally long, so none holds up another.
//
// Routing source (the default): the message carries its itinerary in its BCC header, one key per hop, and each
// level dead-letters to a direct exchange that knows the keys leaving that level. A hop is one hash
// look-up. A level may take several bits (BitsPerLevel): then it has a queue per value of its digit, and
// a message makes fewer hops.
//
// Routing topic: the delay is a topic key, 1.0.1.0.<destination> (with marks that tell it from a user's), and each level a topic exchange that
// decides by its bit between waiting and passing on. This is the ladder that NServiceBus and others
// use; it costs the broker about three times as much.
//
// # Limits
//
// Delays from one tick to 2^(levels × bits) − 1 ticks, rounded up to a tick. The longest queue may wait
// ten years. A tick is at least 1 ms.
//
// # Guarantees
//
// Quorum queues (the default) are replicated and dead-letter at least once: a confirmed message survives
// crashes, and may be delivered twice after one. Classic queues are about twice as fast. What
// waits in them survives a clean restart; what comes due while the broker starts is lost where its destination is not
// ready yet, as quorum queues are not (441 of 5,255 messages in four restarts under load). A crash loses the
// messages that are moving from one queue to the next or whose write had not reached the disk, about a fifth of
// those in the broker in our measurement.
//
// Routing topic does not have Limits.ExactTopics: see there. A consistent-hash exchange at the destination hashes all
// routing keys of a message, so that delayed messages of one key need not go to one queue: let it hash a header.
//
// # What it needs
//
// A stock RabbitMQ, 3.10 or later. Permissions: configure and write on names that begin with the prefix,
// read on them, and write on the destinations (a binding needs it).
//
// # What the consumer sees
//
// See the package comment of delayer: [delayer.Header], x-death and its kin, nothing else.
package binaryladder

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
)

// Name is what the configuration calls this backend.
const Name = "binaryladder"

// Routing is how a message finds its next hop.
type Routing string

// The two ways; see the package comment.
const (
	Source Routing = "source"
	Topic  Routing = "topic"
)

// Config is a ladder's shape. The zero value of a field is not a default: backend.Config has those.
type Config struct {
	Levels       int           // 1 to 28
	Tick         time.Duration // the resolution, whole milliseconds, at least 1 ms
	Routing      Routing
	BitsPerLevel int // 1 to 6; more than 1 needs routing source
}

// A Ladder is a [delayer.Delayer] on a ladder of TTL queues.
type Ladder struct {
	*engine.Engine
	blueprint blueprint
}

var _ delayer.Delayer = (*Ladder)(nil)

// Open connects, declares the ladder under opts.Prefix and returns it. Errors: ErrConfig names the
// field that is wrong; ErrUnavailable and ErrAccess concern the broker; ErrConflict says that objects of
// that prefix exist with another configuration.
func Open(ctx context.Context, opts engine.Options, cfg Config) (*Ladder, error) {
	b, err := cfg.blueprint(opts)
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
		limits:    guarantees(b.ladder, cfg.Routing, opts.QueueType, c.MaxPriority()),
	})
	if err != nil {
		return nil, err
	}
	return &Ladder{Engine: e, blueprint: b}, nil
}

// Describe says what Open would declare, with the queues that it leaves to their first use, and what the Delayer
// could do. It asks no broker.
func Describe(opts engine.Options, cfg Config) (engine.Description, error) {
	b, err := cfg.blueprint(opts)
	if err != nil {
		return engine.Description{}, err
	}
	own := b.all()
	if opts.Imported {
		own = own.Add(engine.Complete(b.links(), b.steps))
	}
	plan, err := opts.Plan(own)
	return engine.Description{Plan: plan, Limits: guarantees(b.ladder, cfg.Routing, opts.QueueType, engine.AnyPriority)}, err
}

// RemoveTopology deletes the ladder and everything that waits in it, and the queue for unroutable messages.
func (l *Ladder) RemoveTopology(ctx context.Context) error {
	return l.Engine.RemoveTopology(ctx, l.blueprint.all())
}

func (c Config) blueprint(opts engine.Options) (blueprint, error) {
	l, err := c.ladder()
	return blueprint{ladder: l, names: names{opts.Prefix}, kind: opts.QueueType, routing: c.Routing, stage: opts.Stage()}, err
}

func (c Config) ladder() (ladder, error) {
	switch {
	case c.Routing != Source && c.Routing != Topic:
		return ladder{}, badConfig("routing", "%q is neither source nor topic", string(c.Routing))
	case c.Routing == Topic && c.BitsPerLevel > 1:
		return ladder{}, badConfig("bits_per_level", "%d needs routing: source; a word of a topic key is one bit", c.BitsPerLevel)
	}
	return newLadder(c.Levels, c.BitsPerLevel, c.Tick)
}

func badConfig(field, format string, args ...any) error {
	return &delayer.Error{Op: "open", Object: Name + "." + field, Kind: delayer.ErrConfig, Cause: fmt.Errorf(format, args...)}
}

// lastWord is the destination's hash without the reserved prefix and the padding.
func lastWord(destination string) string {
	_, hash, _ := strings.Cut(destination, "=")
	return strings.TrimRight(hash, ".")
}
