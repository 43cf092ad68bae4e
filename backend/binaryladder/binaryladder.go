// Package binaryladder delays messages with nothing but TTL queues and dead-lettering: one waiting
// queue for each bit of the delay.
//
//	d, err := binaryladder.Open(ctx, delayer.Options{URL: url}, binaryladder.Config{})
//
// # How a message waits
//
// Level k of the ladder is a queue whose messages expire after 2^k ticks. A delay, counted in
// ticks, is a binary number. The message waits in the queues of its set bits, one after the other,
// highest first: 10 s is 8 s and then 2 s. All messages in a queue wait equally long, so none
// blocks another.
//
// With routing source (the default) the message carries its route in its BCC header, one key for
// each hop. Each level dead-letters to a direct exchange that knows the keys leaving that level, so
// a hop is one hash look-up. A level may take several bits ([Config].BitsPerLevel). It then has a
// queue for each value of its digit, and a message makes fewer hops.
//
// With routing topic the delay is a topic key, 1.0.1.0.<destination>, with marks that tell it from
// a user's key. Each level is a topic exchange that decides by its bit whether the message waits or
// passes on. This is the ladder that NServiceBus and others use. It costs the broker 2.4 times as
// much (docs/results/3.10/report.md, accuracy).
//
// # Limits
//
// Delays from one tick to 2^(levels × bits) − 1 ticks, rounded up to a tick: 8.5 years by default.
// The longest queue may wait ten years. A tick is at least 1 ms.
//
// # Guarantees
//
// Quorum queues (the default) are replicated and dead-letter at least once. A confirmed message
// survives crashes, and may be delivered twice after one.
//
// Classic queues cost the broker about a quarter less. A clean restart keeps what waits in them,
// but messages that expire while the broker starts are lost if their destination is not ready yet,
// as quorum queues are not: 441 of 5,255 in four restarts under load. A crash loses messages that
// are moving between queues, and those that are not on disk yet. In 20 kills under load 1,867 of
// 13,086 messages were lost in all (docs/results/faults.md).
//
// With routing topic Limits.ExactTopics is false. A consistent-hash exchange at the destination
// hashes all routing keys of a message, so delayed messages of one key may go to several queues.
// Let it hash a header.
//
// # What it needs
//
// A stock RabbitMQ, 3.10 or later. Permissions to configure, write and read names that begin with
// the prefix, and to write to the destinations, because they are bound.
//
// # What the consumer sees
//
// [delayer.Header], and x-death and the other headers of dead-lettering. See package delayer.
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

// Name is the name of this backend in a configuration.
const Name = "binaryladder"

// Routing says how a message finds its next hop.
type Routing string

// The routings. See the package comment.
const (
	Source Routing = "source" // by keys that the message carries
	Topic  Routing = "topic"  // by topic exchanges
)

// About describes this backend for tables and reports.
func About() delayer.About {
	return delayer.About{WaitsIn: "a queue per bit of the delay", Needs: "nothing", Deaths: true}
}

// Config is the shape of a ladder. A zero field means its default.
type Config struct {
	// Levels is 1 to 28. Default: 28 divided by BitsPerLevel, rounded down.
	Levels int `yaml:"levels"`
	// Tick is the resolution, a whole number of milliseconds. Default: 1s.
	Tick time.Duration `yaml:"tick"`
	// Routing is source (the default) or topic.
	Routing Routing `yaml:"routing"`
	// BitsPerLevel is 1 (the default) to 6. More than 1 needs routing source.
	BitsPerLevel int `yaml:"bits_per_level"`
}

// Default returns the defaults of a Config.
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

// Open connects, declares the ladder and returns it. ctx bounds the opening only.
//
// ErrConfig names the field that is wrong. ErrUnavailable and ErrAccess concern the broker.
// ErrConflict means that objects of this prefix exist with another configuration, or that a policy
// would harm them. After an error nothing is left open.
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

// Topology returns what Open declares, and the queues that are declared when they are first used.
// It asks no broker. Errors are ErrConfig.
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

// Limits returns what a ladder of this configuration can do. It asks no broker, so MaxPriority may
// be lower once it is open: with quorum queues of RabbitMQ 4.0 to 4.2. Errors are ErrConfig.
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
