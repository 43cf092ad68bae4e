// Package controller delays messages for any time, to the millisecond. They wait in queues, and a
// controller, which is a consumer, sends them on. There are two wheels of queues: [Slots], the
// default, and [Rounds]. docs/design.md has the protocol of slots, and docs/reliability.md what may be
// late.
//
// # How a message waits
//
// With slots, Publish writes messages to one queue, the log, several in a bundle. One controller
// leads: it reads the log, holds what is due soon, and writes the rest to slots. A slot is a queue for
// a stretch of time, which the leader reads shortly before, to publish each message when it is due.
// Cancel and Postpone go through the log too.
//
// With rounds, level k is a queue whose messages expire after 2^k ticks. Publish sends a message to
// the longest queue that ends before it is due. From there it comes back to a controller, which
// sends it to the next: with a tick of 1 s and 3 levels, 13 s are three rounds of 4 s, and 1 s more.
// The last part, up to a tick and a bit, waits in the controller's memory.
//
// # Limits
//
// A controller runs in the publishing process, in another one (Serve), or in many. While none
// runs, messages wait. They are delivered when one starts.
//
// Delays up to 200 years, in steps of 1 ms. A tick is 1 ms to 1 minute: the last part of a delay is
// held unacknowledged, and the broker closes the channel of a consumer that holds a message for
// long (30 minutes by default). The longest queue may wait ten years.
//
// A controller of slots holds what is due within some seconds, and was published in the last half a
// second, with bodies and headers ([Config].Memory); a Delayer needs several times as much. With
// rounds it holds at most 8,192 messages and 64 MiB: enough for about 15,000 messages a second with a
// tick of 1 s, or 250 with one of 1 minute. Further messages go through the shortest queue instead
// and may be late by up to a tick. For messages of many megabytes another backend is better suited.
//
// # Guarantees
//
// Quorum queues are replicated, and TTL queues dead-letter at least once: a confirmed message
// survives crashes of the broker. Classic queues, which only rounds can have, keep what waits over a
// clean restart. But they dead-letter at most once: messages that expire while the broker starts may
// be lost. A crash also loses those whose write had not reached the disk.
//
// A crash of a controller loses nothing. What it held is delivered by others: at once, or, if its
// whole machine is gone, after the broker has missed its heartbeats (20 to 30 s). After a crash or
// a lost connection a message may be delivered twice, with slots if it was delivered within the
// second before; both copies carry the same id in [delayer.Header].
//
// A message that its destination refuses, as a full queue may, is tried again every few seconds and
// blocks no other. If it has several destinations, the others may get it each time.
//
// With rounds, messages that are due within the same few milliseconds may overtake each other. With
// slots, messages of one publisher with the same due time, or the same delay, arrive in order
// (Limits.Ordered) until a process or the broker crashes; docs/reliability.md has the exceptions.
//
// Slots go by the broker's clock; docs/reliability.md tells what happens when that is set. With rounds
// each process goes by its own monotonic clock, and no clocks of two machines are compared. If another
// controller takes a message, it is late by the time of a hop, a few milliseconds, and by the time
// that it lay in the intake queue while none ran; never early. A process whose machine was suspended
// delivers later by as much.
//
// # What it needs
//
// A stock RabbitMQ, 3.10 or later, and at least one controller that runs. Permissions: configure,
// write and read on names that begin with the prefix; where messages are published also write on
// the destinations (a binding needs it). A stand-alone controller touches nothing but names with
// the prefix. It binds no destinations: one that is deleted and created again while messages wait
// is bound again by the next Publish there.
//
// A message with a UserId keeps it only where the controller logs in as that user: the broker
// allows no other.
//
// # What the consumer sees
//
// [delayer.Header], and nothing else: not even x-death, since the last step is a publish. The
// delivery's exchange field names the exchange that the message was published to, or one of the
// Delayer's where the controller's user may not write there. Headers in which quorum queues
// count deliveries, x-delivery-count and x-acquired-count, are removed.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/rounds"
	"github.com/delayer-go/delayer/backend/controller/internal/slots"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/topology"
)

// Name is what the configuration calls this backend.
const Name = "controller"

// A Wheel is where messages wait.
type Wheel string

// The wheels.
const (
	// Slots are quorum queues, one for each stretch of time. A controller writes messages there, and
	// reads them shortly before they are due.
	Slots Wheel = "slots"
	// Rounds are queues with a TTL of 2^k ticks.
	Rounds Wheel = "rounds"
)

// Config is the shape of the queues. A field that is zero takes its default.
type Config struct {
	// Wheel says where messages wait: "slots" or "rounds". Default: "slots", which are quorum
	// queues; with classic queues, levels or a tick, say "rounds".
	Wheel Wheel `yaml:"wheel"`
	// Levels of rounds, 1 to 28; more levels mean fewer hops for a long delay. Default: 20.
	Levels int `yaml:"levels"`
	// Tick is how long messages wait in the shortest queue of rounds, whole milliseconds up to 1m.
	// Delays are exact to the millisecond whatever it is. Default: 1s.
	Tick time.Duration `yaml:"tick"`
	// PublishOnly starts no controller beside the Delayer: another process must run one ([Serve], or
	// `delayer serve`). Messages wait until one does. Default: false.
	PublishOnly bool `yaml:"publish_only"`
	// Memory is how many bytes of messages a controller of slots holds, headers included, at least
	// 1 MiB. If there are more, it begins anew with fewer bundles in hand, but never fewer than 4 of a
	// queue. Very large messages may therefore be more. Default: 64 MiB.
	Memory int `yaml:"memory"`
}

// Default returns the values that zero fields of a Config stand for.
func Default() Config {
	return Config{Wheel: Slots, Levels: 20, Tick: time.Second, Memory: 64 << 20}
}

func (c Config) withDefaults() Config {
	def := Default()
	return Config{
		Wheel: cmp.Or(c.Wheel, def.Wheel), Levels: cmp.Or(c.Levels, def.Levels), Tick: cmp.Or(c.Tick, def.Tick),
		PublishOnly: c.PublishOnly, Memory: cmp.Or(c.Memory, def.Memory),
	}
}

// Open connects, declares the queues under the prefix, starts a controller unless cfg says
// otherwise, and returns the Delayer. ctx bounds the opening only. Errors: ErrConfig names the
// field that is wrong; ErrUnavailable and ErrAccess concern the broker; ErrConflict says that
// objects of that prefix exist with another configuration. After an error nothing is left open.
//
// Close returns the messages that the controller holds to the broker. Another controller, or this
// one later, delivers them.
func Open(ctx context.Context, opts delayer.Options, cfg Config) (delayer.Delayer, error) {
	w, s, err := newShape(opts, cfg)
	if err != nil {
		return nil, err
	}
	return w.Open(ctx, s, !cfg.PublishOnly)
}

// Serve runs a controller and nothing else, until ctx ends. It then stops taking messages, waits
// for those that are being published, hands the others back to the broker and returns nil. Errors
// are those of Open.
func Serve(ctx context.Context, opts delayer.Options, cfg Config) error {
	w, s, err := newShape(opts, cfg)
	if err != nil {
		return err
	}
	s.IgnoreMisrouted = true // it may lack the permissions for that
	d, err := w.Open(ctx, s, true)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return d.Close()
}

// Topology returns what Open declares. It asks no broker. Errors are ErrConfig.
func Topology(opts delayer.Options, cfg Config) (topology.Plan, error) {
	w, s, err := newShape(opts, cfg)
	if err != nil {
		return topology.Plan{}, err
	}
	return s.Whole(w.Plan()), nil
}

// Limits returns what controllers of this configuration can do. It asks no broker. Errors are
// ErrConfig.
func Limits(opts delayer.Options, cfg Config) (delayer.Limits, error) {
	w, _, err := newShape(opts, cfg)
	if err != nil {
		return delayer.Limits{}, err
	}
	return w.Limits(), nil
}

// A shape is a wheel of one configuration.
type shape interface {
	// Plan is the topology, without the delivery stage.
	Plan() topology.Plan
	// Limits returns what controllers of this wheel can do.
	Limits() delayer.Limits
	// Open opens a Delayer, with a controller beside it if runs is true. After an error nothing is
	// left open.
	Open(ctx context.Context, s engine.Settings, runs bool) (delayer.Delayer, error)
}

const leastMemory = 1 << 20

// newShape checks a configuration. The broker accepts every topology that passes.
func newShape(opts delayer.Options, cfg Config) (shape, engine.Settings, error) {
	s, err := engine.Resolve(opts, Name)
	if err != nil {
		return nil, s, err
	}
	if cfg.Wheel == "" && (cfg.Levels != 0 || cfg.Tick != 0) {
		return nil, s, badWheel("it is not set, which means slots, and levels and tick are of rounds")
	}
	cfg = cfg.withDefaults()
	switch cfg.Wheel {
	case Slots:
		if cfg.Memory < leastMemory {
			err := fmt.Errorf("%d bytes are less than %d, 1 MiB", cfg.Memory, leastMemory)
			return nil, s, engine.ConfigError(Name+".memory", err, "")
		}
		if s.QueueType != delayer.Quorum {
			return nil, s, badWheel(fmt.Sprintf("slots are quorum queues, and queue_type is %s", s.QueueType))
		}
		vhost, _ := broker.Vhost(s.URL) // that is wrong where Open refuses the URL
		return slots.New(vhost, s.Prefix, cfg.Memory), s, nil
	case Rounds:
		w, err := rounds.New(s.Prefix, s.QueueType, cfg.Levels, cfg.Tick)
		return w, s, err
	}
	return nil, s, engine.ConfigError(Name+".wheel", fmt.Errorf("%q is neither %s nor %s", cfg.Wheel, Slots, Rounds), "")
}

func badWheel(why string) error {
	return engine.ConfigError(Name+".wheel", errors.New(why), "set controller.wheel: rounds")
}
