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
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/keeper"
)

// Name is what the configuration calls this backend.
const Name = "binaryladder"

// Routing is how a message finds its next hop.
type Routing string

// The values of Config.Routing; see the package comment.
const (
	Source Routing = "source"
	Topic  Routing = "topic"
)

// About is what tables and reports say of this backend.
func About() delayer.About {
	return delayer.About{WaitsIn: "a queue per bit of the delay", Needs: "nothing", Deaths: true}
}

// Config is the shape of a ladder. A field that is zero takes its default.
type Config struct {
	// Levels is 1 to 28. Default: as many of BitsPerLevel and Tick as fit below 28 bits, 28 with
	// one bit.
	Levels int `yaml:"levels"`
	// Tick is the resolution, in whole milliseconds. Default: 1s.
	Tick time.Duration `yaml:"tick"`
	// Routing is source (the default) or topic.
	Routing Routing `yaml:"routing"`
	// BitsPerLevel is 1 (the default) to 6; more than 1 needs routing source.
	BitsPerLevel int `yaml:"bits_per_level"`
}

// Default returns the values that zero fields of a Config stand for.
func Default() Config {
	return Config{Levels: maxLevels, Tick: time.Second, Routing: Source, BitsPerLevel: 1}
}

// withDefaults fills the fields that are zero. With several bits a level the default is as many
// levels as cover the same range.
func (c Config) withDefaults() Config {
	def := Default()
	c.BitsPerLevel = cmp.Or(c.BitsPerLevel, def.BitsPerLevel)
	c.Tick = cmp.Or(c.Tick, def.Tick)
	c.Routing = cmp.Or(c.Routing, def.Routing)
	c.Levels = cmp.Or(c.Levels, max(1, def.Levels/max(1, c.BitsPerLevel)))
	return c
}

// Open connects, declares the ladder under the prefix and returns it. ctx bounds the opening only.
// Errors: ErrConfig names the field that is wrong; ErrUnavailable and ErrAccess concern the broker;
// ErrConflict says that objects of that prefix exist with another configuration. After an error
// nothing is left open.
func Open(ctx context.Context, opts delayer.Options, cfg Config) (delayer.Delayer, error) {
	b, s, err := newBlueprint(opts, cfg)
	if err != nil {
		return nil, err
	}
	c, err := engine.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	return engine.Opened(c.Start(ctx, &strategy{
		blueprint: b, Links: newLinks(b, c.Declare), limits: guarantees(b, c.MaxPriority()),
	}))
}

// Topology returns what Open declares, and the queues that it leaves to their first use. It asks no
// broker. Errors are ErrConfig.
func Topology(opts delayer.Options, cfg Config) (delayer.Topology, error) {
	b, s, err := newBlueprint(opts, cfg)
	if err != nil {
		return nil, err
	}
	own := b.all()
	if !s.Declare.Enabled() {
		own = own.Add(keeper.Complete(b.links(), b.steps))
	}
	return s.Whole(own), nil
}

// Limits returns what a ladder of this configuration can do. It asks no broker: with quorum queues
// of RabbitMQ 4.0 to 4.2 MaxPriority is lower. Errors are ErrConfig.
func Limits(opts delayer.Options, cfg Config) (delayer.Limits, error) {
	b, _, err := newBlueprint(opts, cfg)
	return guarantees(b, engine.AnyPriority), err
}

// newBlueprint checks a configuration. The broker accepts every topology that passes.
func newBlueprint(opts delayer.Options, cfg Config) (blueprint, engine.Settings, error) {
	s, err := engine.Resolve(opts, Name)
	if err != nil {
		return blueprint{}, s, err
	}
	cfg = cfg.withDefaults()
	l, err := cfg.ladder()
	return blueprint{ladder: l, names: names{s.Prefix}, kind: s.QueueType, routing: cfg.Routing, stage: s.Stage()}, s, err
}

func (c Config) ladder() (ladder, error) {
	switch {
	case c.Routing != Source && c.Routing != Topic:
		return ladder{}, badConfig("routing", "%q is neither source nor topic", string(c.Routing))
	case c.Routing == Topic && c.BitsPerLevel > 1:
		return ladder{}, badConfig("bits_per_level", "%d needs routing: source, because a word of a topic key is one bit", c.BitsPerLevel)
	}
	return newLadder(c.Levels, c.BitsPerLevel, c.Tick)
}

func badConfig(field, format string, args ...any) error {
	return engine.ConfigError(Name+"."+field, fmt.Errorf(format, args...), "")
}

// lastWord is the destination's hash without the reserved prefix and the padding.
func lastWord(destination string) string {
	_, hash, _ := strings.Cut(destination, "=")
	return strings.TrimRight(hash, ".")
}
