// Package native delays messages in quorum queues of RabbitMQ 4.4, which hide a message until its
// time. It is experimental: RabbitMQ 4.4 is not released, and its source may still change.
//
//	d, err := native.Open(ctx, delayer.Options{URL: url}, native.Config{})
//
// # How a message waits
//
// A publisher writes the due time into the header x-opt-delivery-time. A waiting queue, a quorum
// queue, hides the message until then. It has a TTL of 0: a message that is due expires in the same
// step, and is dead-lettered to the delivery exchange. Nothing consumes a waiting queue, and no
// process is needed.
//
//	Publish ─→ <prefix>.native.enter ─→ <prefix>.native.wait.0 ─(at its time)→ <prefix>.delivery ─→ destination
//
// The messages for one destination wait in one queue, so that they come in order. Others may have
// another queue: a broker dead-letters four or five thousand messages a second from each.
//
// # Which clock counts
//
// That of the Erlang node which leads the waiting queue. Publishers learn it by the queue's own
// answers, to some milliseconds, and round up. If another node becomes the leader, what waits is
// early or late by as much as the two clocks differ. A node's clock that is set does the same, as
// with other quorum queues (docs/reliability.md). Publishers notice within about ten seconds.
//
// # What it needs
//
// RabbitMQ 4.4 on all nodes. Older brokers ignore the header, and would deliver at once. Nothing in
// AMQP 0-9-1 tells which broker does. So a Delayer proves it on each connection, with messages of
// its own, before the first message and about every ten seconds: it sends a message with a time
// that has not come, and then one without a time. If the second comes back first, the queue hides
// messages. Without proof Publish fails with [delayer.ErrNotSent], and Open with
// [delayer.ErrNotFound].
//
// Permissions to configure, write and read names that begin with the prefix, and to write to the
// destinations.
//
// # Limits
//
// Delays up to ten years, to the millisecond. A longer one is refused. Messages cannot be cancelled
// or postponed.
//
// # Guarantees
//
// Those of quorum queues with at-least-once dead-lettering: what was confirmed survives crashes,
// and the loss of a minority of the cluster's nodes. After a crash a message may come twice.
//
// Some acts of an operator deliver what waits at once, or delete it, and the Delayer cannot prevent
// that: rabbit_quorum_queue:retry_delayed delivers, purging a waiting queue deletes.
//
// # What the consumer sees
//
// [delayer.Header], the headers of dead-lettering, and x-opt-delivery-time with the time at which
// the message was due by the broker's clock. That time has passed, so a queue that the consumer
// publishes the message to does not hide it again. Publish removes it from a message that was
// delivered, and refuses one that a program has set itself.
package native

import (
	"context"
	"fmt"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/topology"
)

// Name is the name of this backend in a configuration.
const Name = "native"

// Config is how many queues there are. A zero field means its default. The QueueType of the Options
// must be quorum, its default.
type Config struct {
	// Queues is how many waiting queues there are, 1 to 16. All Delayers of a prefix must agree.
	// One dead-letters four or five thousand messages a second. Default: 4.
	Queues int `yaml:"queues"`
}

// Default returns the defaults of a Config.
func Default() Config { return Config{Queues: 4} }

const mostQueues = 16

// Open connects, declares the queues, and proves on each connection that they hide messages. ctx
// bounds the opening only.
//
// ErrConfig names the field that is wrong. ErrUnavailable and ErrAccess concern the broker.
// ErrNotFound means that it is too old. ErrConflict means that objects of these names exist with
// another configuration, or that a policy would harm them. After an error nothing is left open.
func Open(ctx context.Context, opts delayer.Options, cfg Config) (delayer.Delayer, error) {
	s, settings, err := newStrategy(opts, cfg)
	if err != nil {
		return nil, err
	}
	c, err := engine.Connect(ctx, settings)
	if err != nil {
		return nil, err
	}
	if !c.HidesMessages() { // then nothing is to be declared
		version := c.Version
		c.Close()
		return nil, lacking(fmt.Errorf("RabbitMQ %s does not hide messages until their time", version))
	}
	s.prover = newProver(s.names, s.queues)
	e, err := c.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	e.Drained = s.prover.close
	if err := s.prover.start(ctx, e, settings); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

func lacking(cause error) error {
	return &delayer.Error{
		Op: "open", Backend: Name, Kind: delayer.ErrNotFound, Cause: cause,
		Hint: "it takes RabbitMQ 4.4 on all nodes; or use backend binaryladder, or auto, which takes native where it can",
	}
}

// Topology returns what Open declares. It asks no broker. Errors are ErrConfig.
func Topology(opts delayer.Options, cfg Config) (topology.Plan, error) {
	s, settings, err := newStrategy(opts, cfg)
	if err != nil {
		return topology.Plan{}, err
	}
	return settings.Whole(s.Plan()), nil
}

// Limits returns what native queues can do. It asks no broker. Errors are ErrConfig.
func Limits(opts delayer.Options, cfg Config) (delayer.Limits, error) {
	s, _, err := newStrategy(opts, cfg)
	if err != nil {
		return delayer.Limits{}, err
	}
	return s.Limits(), nil
}

func newStrategy(opts delayer.Options, cfg Config) (*strategy, engine.Settings, error) {
	s, err := engine.Resolve(opts, Name)
	if err != nil {
		return nil, s, err
	}
	if s.QueueType != delayer.Quorum {
		return nil, s, engine.ConfigError("queue_type", fmt.Errorf("%s queues do not hide messages", s.QueueType), "native takes quorum queues")
	}
	if cfg.Queues == 0 {
		cfg.Queues = Default().Queues
	}
	if cfg.Queues < 1 || cfg.Queues > mostQueues {
		return nil, s, engine.ConfigError(Name+".queues", fmt.Errorf("%d is not between 1 and %d", cfg.Queues, mostQueues), "")
	}
	return &strategy{names: names{s.Prefix, s.Stage()}, queues: cfg.Queues}, s, nil
}
