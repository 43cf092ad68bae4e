// Package fixedtiers delays messages in one queue for each tier. A message waits one minute in
// delay.1m.queue, five minutes in delay.5m.queue, and so on. It is the simplest strategy: one hop,
// whatever the delay.
//
//	d, err := fixedtiers.Open(ctx, delayer.Options{URL: url}, fixedtiers.Config{})
//
// # How a message waits
//
// Each tier is a queue whose messages expire after the tier's duration. It has no dead-letter
// routing key, so a message keeps the key it was published with. All messages in a queue wait
// equally long, so none blocks another.
//
//	Publish ─→ delay.enter ─→ delay.1m.queue ─TTL→ <prefix>.delivery ─→ destination
//
// Without a Delayer, an existing exchange can be routed through a tier with bindings alone. For
// that [Topology] has a second set of queues, which Open does not declare.
// `delayer topology print --backend fixedtiers --output definitions` prints it for the broker to
// import. Bind such a queue to the exchange, and bind the consumers' queues to delay.exchange, with
// the keys that the messages are published with. See docs/choosing.md.
//
//	an existing exchange ─→ delay.route.1m.queue ─TTL→ delay.exchange ─→ as bound
//
// # Limits
//
// The delays are the tiers. A delay in between waits until the next tier (rounding up), or is
// refused (rounding exact). A delay above the last tier is refused. There are at most 100 tiers,
// each a whole number of milliseconds from 1 ms to ten years. Two Delayers may share queues and
// have different tiers if everything else agrees.
//
// A tier holds [Config].MaxLength messages. If it is full, Publish returns [delayer.ErrRefused]
// with the name of the queue, and nothing is lost. Quorum queues take some more before they refuse.
//
// # Guarantees
//
// Quorum queues (the default) are replicated and dead-letter at least once. A confirmed message
// survives crashes, and may be delivered twice after one.
//
// Classic queues keep what waits in a clean restart, and may lose some of it otherwise, as package
// binaryladder says.
//
// # What it needs
//
// A stock RabbitMQ, 3.10 or later. Permissions to configure, write and read names that begin with
// either prefix (^delay covers both defaults), and to write to the destinations, because they are
// bound.
//
// # What the consumer sees
//
// [delayer.Header], and x-death and the other headers of dead-lettering. See package delayer.
package fixedtiers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/ttl"
	"github.com/delayer-go/delayer/topology"
)

// Name is the name of this backend in a configuration.
const Name = "fixedtiers"

// Rounding says what happens to a delay that is not a tier.
type Rounding string

// The roundings. With both, a delay above the last tier is refused.
const (
	Up    Rounding = "up"    // it waits until the next tier
	Exact Rounding = "exact" // it is refused
)

// Config is the shape of the tiers. A zero field means its default.
type Config struct {
	// Tiers are the delays: at most 100, in any order, each a whole number of milliseconds up to
	// ten years. Default: 1m, 5m, 15m.
	Tiers []time.Duration `yaml:"tiers"`
	// Rounding is up (the default) or exact.
	Rounding Rounding `yaml:"rounding"`
	// MaxLength is the number of messages that a tier holds. Default: 1000000.
	MaxLength int `yaml:"max_length"`
	// Prefix begins the names of the tiers' queues and exchanges, as in delay.1m.queue. Default:
	// delay. If Options.Prefix is not its default, it is that prefix and ".delay", so that tiers of
	// different prefixes stay apart.
	Prefix string `yaml:"prefix"`
}

// Default returns the defaults of a Config where Options.Prefix has its own default.
func Default() Config {
	return Config{
		Tiers:    []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute},
		Rounding: Up, MaxLength: 1_000_000,
		Prefix: "delay", // what administrators of RabbitMQ call such queues
	}
}

func (c Config) withDefaults(prefix string) Config {
	def := Default()
	if prefix != delayer.DefaultOptions().Prefix {
		def.Prefix = prefix + "." + def.Prefix
	}
	if len(c.Tiers) == 0 {
		c.Tiers = def.Tiers
	}
	c.Rounding = cmp.Or(c.Rounding, def.Rounding)
	c.MaxLength = cmp.Or(c.MaxLength, def.MaxLength)
	c.Prefix = cmp.Or(c.Prefix, def.Prefix)
	return c
}

// Open connects, declares the tiers and returns them. ctx bounds the opening only.
//
// ErrConfig names the field that is wrong. ErrUnavailable and ErrAccess concern the broker.
// ErrConflict means that objects of these names exist with another configuration, or that a policy
// would harm them. After an error nothing is left open.
func Open(ctx context.Context, opts delayer.Options, cfg Config) (delayer.Delayer, error) {
	b, s, err := newBlueprint(opts, cfg)
	if err != nil {
		return nil, err
	}
	return b.queues().Open(ctx, s)
}

// Topology returns what Open declares, and the queues for routing without a Delayer. It asks no
// broker. Errors are ErrConfig.
func Topology(opts delayer.Options, cfg Config) (topology.Plan, error) {
	b, s, err := newBlueprint(opts, cfg)
	if err != nil {
		return topology.Plan{}, err
	}
	return s.Whole(b.queues().Whole(s).Add(b.routes())), nil
}

// Limits returns what tiers of this configuration can do. It asks no broker, so MaxPriority may be
// lower once they are open: with quorum queues of RabbitMQ 4.0 to 4.2. Errors are ErrConfig.
func Limits(opts delayer.Options, cfg Config) (delayer.Limits, error) {
	b, _, err := newBlueprint(opts, cfg)
	if err != nil {
		return delayer.Limits{}, err
	}
	return b.queues().Limits, nil
}

const maxTiers = 100

// newBlueprint checks a configuration. The broker accepts every topology that passes.
func newBlueprint(opts delayer.Options, cfg Config) (blueprint, engine.Settings, error) {
	s, err := engine.Resolve(opts, Name)
	if err != nil {
		return blueprint{}, s, err
	}
	cfg = cfg.withDefaults(s.Prefix)
	b := blueprint{
		prefix: cfg.Prefix, kind: s.QueueType, stage: s.Stage(), owner: s.Prefix, rounding: cfg.Rounding,
		tiers: ttl.Steps{Waits: slices.Sorted(slices.Values(cfg.Tiers))}, maxLength: cfg.MaxLength,
	}
	// A message for a tier's queue would expire there, and its delivery key would lead it there
	// again.
	s.Reserved = append(s.Reserved, cfg.Prefix)
	return b, s, b.check(cfg)
}

func (b blueprint) check(cfg Config) error {
	if err := message.ValidatePrefix(cfg.Prefix); err != nil {
		return badConfig("prefix", "%v", err)
	}
	switch {
	case len(cfg.Tiers) > maxTiers:
		return badConfig("tiers", "%d tiers are more than %d: use binaryladder, which takes any delay", len(cfg.Tiers), maxTiers)
	case cfg.Rounding != Up && cfg.Rounding != Exact:
		return badConfig("rounding", "%q is neither up nor exact", string(cfg.Rounding))
	case cfg.MaxLength < 1:
		return badConfig("max_length", "%d is not a number of messages, at least 1", cfg.MaxLength)
	}
	for i, tier := range b.tiers.Waits {
		switch {
		case tier < time.Millisecond || tier%time.Millisecond != 0 || tier > ttl.LongestStep:
			return badConfig("tiers", "%v is not a whole number of milliseconds from 1ms to ten years: the broker counts in milliseconds", tier)
		case i > 0 && tier == b.tiers.Waits[i-1]:
			return badConfig("tiers", "%s is listed twice", objects.DurationName(tier))
		}
	}
	return nil
}

func badConfig(field, format string, args ...any) error {
	return engine.ConfigError(Name+"."+field, fmt.Errorf(format, args...), "")
}
