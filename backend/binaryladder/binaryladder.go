// Package binaryladder delays messages with nothing but TTL queues and dead-lettering: one waiting
// queue for each step of a ladder.
//
//	d, err := binaryladder.Open(ctx, delayer.Options{URL: url}, binaryladder.Config{})
//
// # How a message waits
//
// The messages of a step's queue expire after that step. A message waits in the queue of the
// longest step that fits into its delay, then in that of the longest that fits into the rest, and
// so on: 25 h is 24 h and then 1 h. All messages in a queue wait equally long, so none blocks
// another.
//
// [Config].Steps chooses the steps. By default they are those of a calendar: 64, among them the
// delays that people write. Every step costs the broker about as much as the first, so fewer are
// better. A list of your own is possible too.
//
// With routing source (the default) the message carries its route in its BCC header, one key for
// each hop. Each queue dead-letters to a direct exchange that knows the keys leaving that step, so
// a hop is one hash look-up.
//
// With routing topic the steps are binary: each is twice the one before, and a delay takes those of
// its set bits. 10 s is 8 s and then 2 s. The delay is a topic key, 1.0.1.0.<destination>, with
// marks that tell it from a user's key. Each step is a topic exchange that decides by its bit
// whether the message waits or passes on. This is the ladder that NServiceBus and others use. It
// costs the broker nearly three times as much on 3.10 (docs/results/3.10.json). A list of steps that
// double from the tick on has fewer levels: 1s, 2s, 4s, 8s are four, and delays up to 15 s.
//
// With routing topic [Topology] has a second ladder, which Open does not declare, for publishers
// that have no Delayer and write the key themselves, without marks. Below are the exchanges of four
// levels. A 1 waits in <prefix>.ladder.Q3 and so on. See docs/choosing.md.
//
//	publish 1.0.1.0.work to <prefix>.ladder.N3 ─→ N2 ─→ N1 ─→ N0 ─→ <prefix>.ladder.exchange ─ #.work ─→ as bound
//
// # Limits
//
// Delays from one tick to the sum of the steps, or ten years if that is less, rounded up to a tick:
// ten years by default, 8.5 with steps binary. A step is at most ten years. A tick is at least 1
// ms.
//
// # Guarantees
//
// Quorum queues (the default) are replicated and dead-letter at least once. A confirmed message
// survives crashes, and may be delivered twice after one.
//
// Classic queues cost the broker less. A clean restart keeps what waits in them. But messages that
// expire while the broker starts are lost if their destination is not ready, and quorum queues are
// not ready at first. A crash loses messages that are moving between queues, and those that are not
// on disk yet. docs/measured.md has the numbers.
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
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/topology"
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

// Config is the shape of a ladder. A zero field means its default.
type Config struct {
	// Tick is the resolution, a whole number of milliseconds. Default: 1s.
	Tick time.Duration `yaml:"tick"`
	// Routing is source (the default) or topic.
	Routing Routing `yaml:"routing"`
	// Steps are calendar (the default with routing source), binary (the default with routing topic,
	// which needs steps that double), or durations. See [Steps].
	Steps Steps `yaml:"steps"`
}

// Default returns the defaults of a Config.
func Default() Config {
	return Config{Tick: time.Second, Routing: Source, Steps: Calendar}
}

func (c Config) withDefaults() Config {
	def := Default()
	c.Tick = cmp.Or(c.Tick, def.Tick)
	c.Routing = cmp.Or(c.Routing, def.Routing)
	if c.Routing == Topic {
		def.Steps = Binary
	}
	c.Steps = cmp.Or(c.Steps, def.Steps)
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
	return b.queues().Open(ctx, s)
}

// Topology returns what Open declares; with passive: true also the links that are otherwise
// declared when they are first used; with routing topic also the ladder for plain keys. It asks no
// broker. Errors are ErrConfig.
func Topology(opts delayer.Options, cfg Config) (topology.Plan, error) {
	b, s, err := newBlueprint(opts, cfg)
	if err != nil {
		return topology.Plan{}, err
	}
	own := b.queues().Whole(s)
	if b.routing == Topic {
		own = own.Add(b.plain())
	}
	return s.Whole(own), nil
}

// Limits returns what a ladder of this configuration can do. It asks no broker, so MaxPriority may
// be lower once it is open: with quorum queues of RabbitMQ 4.0 to 4.2. Errors are ErrConfig.
func Limits(opts delayer.Options, cfg Config) (delayer.Limits, error) {
	b, _, err := newBlueprint(opts, cfg)
	if err != nil {
		return delayer.Limits{}, err
	}
	return b.queues().Limits, nil
}

// Hops returns, for each delay, the steps in which a message waits, longest first. A negative delay
// and one above the longest have none. Errors are ErrConfig.
func Hops(cfg Config, delays ...time.Duration) ([][]time.Duration, error) {
	l, err := cfg.withDefaults().ladder()
	if err != nil {
		return nil, err
	}
	all := make([][]time.Duration, len(delays))
	for i, delay := range delays {
		if delay < 0 || delay > l.longest {
			continue
		}
		for _, step := range l.Plan(nil, delay) {
			all[i] = append(all[i], l.Waits[step])
		}
	}
	return all, nil
}

// newBlueprint checks a configuration. The broker accepts every topology that passes.
func newBlueprint(opts delayer.Options, cfg Config) (blueprint, engine.Settings, error) {
	s, err := engine.Resolve(opts, Name)
	if err != nil {
		return blueprint{}, s, err
	}
	cfg = cfg.withDefaults()
	l, err := cfg.ladder()
	return blueprint{ladder: l, prefix: s.Prefix, kind: s.QueueType, routing: cfg.Routing, stage: s.Stage()}, s, err
}

func (c Config) ladder() (ladder, error) {
	if c.Routing != Source && c.Routing != Topic {
		return ladder{}, badConfig("routing", "%q is neither source nor topic", string(c.Routing))
	}
	l, err := c.Steps.ladder(c.Tick)
	if err == nil && c.Routing == Topic && !l.doubles() {
		return l, badConfig("steps", "%.64q needs routing: source, because a word of a topic key is one bit: the steps must double from the tick on, as those of binary do", string(c.Steps))
	}
	return l, err
}

func badConfig(field, format string, args ...any) error {
	return engine.ConfigError(Name+"."+field, fmt.Errorf(format, args...), "")
}
