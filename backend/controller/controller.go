// Package controller delays messages for any time, to the millisecond: they wait in TTL queues, and
// between two queues a controller, a consumer of ours, works out what remains.
//
// # How a message waits
//
// Level k is a queue whose messages expire after 2^k ticks. Publish sends a message to the longest queue that
// ends before it is due. From there it is dead-lettered to the intake queue, and so comes to a controller, which
// sends it to the next: 13 s with a tick of 1 s and 3 levels are three rounds of 4 s, and 1 s more. The last part,
// up to a tick and a bit, waits in the controller's memory, for at most 8,192 messages and 64 MiB at a time: enough for
// about 15,000 messages a second with a tick of 1 s, or 250 with one of 1 minute. When it is full, the next go
// through the shortest queue instead and may be late by up to a tick. When a message
// is due, the controller publishes it to its destination. Each of these moves is a publish with a
// confirm, and only then is the message acknowledged where it came from.
//
// A controller runs in the publishing process (Run), or in another one (Serve), or in many, side by side. With none
// running messages wait in the intake queue, and are delivered when one comes.
//
// A controller that has heard nothing for three seconds sends a message of its own through the intake queue (header
// x-delayer-ping; it expires after a minute). Where that does not come back to any controller, it consumes anew: see pulse.go.
//
// # Limits
//
// Delays up to 200 years, in steps of 1 ms. A tick is 1 ms to 1 minute: the last part of a delay is held
// unacknowledged, and the broker closes the channel of a consumer that holds a message for long (30 minutes by
// default). The longest queue may wait ten years. More levels mean fewer hops for a long delay.
//
// Up to 9,216 messages at a time are on their way through a controller, with their bodies in its memory.
// For messages of many megabytes another backend is better suited.
//
// # Guarantees
//
// Quorum queues (the default) are replicated and dead-letter at least once: a confirmed message survives crashes
// of the broker. Classic queues survive a clean restart; a crash loses those whose write had not reached
// the disk. A crash of a controller loses nothing; what it held is delivered by others, at once, or where its whole
// machine is gone, once the broker misses its heartbeats (20 s). After a crash, and after a connection was lost, a
// message may be delivered twice; both copies carry the same id in [delayer.Header].
//
// A destination that refuses a message, such as a full queue that rejects, is tried again every few seconds, and holds
// up no other. If it is one of several, the others may get the message each time.
//
// Order is not kept (Limits.Ordered): messages that are due within the same few milliseconds may overtake each
// other.
//
// # Clocks
//
// No clocks of two machines are compared. The process that sent a message to a queue knows by its own monotonic
// clock when it is due, and if the message comes back to it there is no drift. To any other controller, or the
// same program started again, what remains is what remained before the last queue less that queue's TTL, so that
// each change of hands adds the time of a hop, a few milliseconds, and never takes any away. How long a message
// has lain in the intake queue while no controller ran is told by the broker's clock, of which a message carries
// whole seconds: one that came due meanwhile is delivered within about three seconds of a controller's coming. A
// process whose machine was suspended delivers its messages later by as much.
//
// # What it needs
//
// A stock RabbitMQ, 3.10 or later, and at least one controller that runs. Permissions: configure, write and read
// on names that begin with the prefix; where messages are published also write on the destinations (a binding needs
// it). A stand-alone controller touches nothing but names with the prefix. It binds no destinations: one that is
// deleted and created again while messages wait is bound again by the next Publish there.
//
// A message with a UserId keeps it only where the controller logs in as that user: the broker allows no other.
//
// # What the consumer sees
//
// [delayer.Header], and nothing else: not even x-death, since the last step is a publish. The delivery's exchange
// field names the delivery exchange. A message with a header that quorum queues count deliveries in, x-delivery-count
// or x-acquired-count, arrives without it.
package controller

import (
	"context"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/misrouted"
)

// Name is what the configuration calls this backend.
const Name = "controller"

// Config is the shape of the queues. The zero value of a field is not a default: backend.Config has those.
type Config struct {
	Levels int           // 1 to 28
	Tick   time.Duration // the shortest queue, whole milliseconds, 1 ms to 1 minute
	Run    bool          // a controller runs beside the Delayer
}

// A Controller is a [delayer.Delayer] whose messages pass through controllers.
type Controller struct {
	*engine.Engine
	blueprint blueprint

	stop   sync.Once
	runner *runner // nil where only others run
}

var _ delayer.Delayer = (*Controller)(nil)

// Open connects, declares the queues under opts.Prefix, starts a controller if cfg says so, and returns
// the Delayer. Errors: ErrConfig names the field that is wrong; ErrUnavailable and ErrAccess concern the broker;
// ErrConflict says that objects of that prefix exist with another configuration.
func Open(ctx context.Context, opts engine.Options, cfg Config) (*Controller, error) {
	s, err := newSchedule(cfg.Levels, cfg.Tick)
	if err != nil {
		return nil, err
	}
	opts.Broker.Backend = Name
	c, err := engine.Connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	b := blueprint{schedule: s, names: names{opts.Prefix}, kind: opts.QueueType, stage: c.Stage}
	e, err := c.Start(ctx, &strategy{blueprint: b, limits: guarantees(opts.QueueType, c.MaxPriority())})
	if err != nil {
		return nil, err
	}
	d := &Controller{Engine: e, blueprint: b}
	if cfg.Run {
		declare := func(ctx context.Context) error { return c.Declare(ctx, e.Plan()) }
		if d.runner, err = run(ctx, opts.Broker, b, declare); err != nil {
			_ = e.Close()
			return nil, err
		}
	}
	return d, nil
}

// Serve runs a controller and nothing else, until ctx ends. It then stops taking messages, waits for those that
// are being published, hands the others back to the broker and returns nil.
func Serve(ctx context.Context, opts engine.Options, cfg Config) error {
	cfg.Run = true
	opts.Misrouted = misrouted.Ignore // it may lack the permissions for that
	d, err := Open(ctx, opts, cfg)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return d.Close()
}

// Close implements [delayer.Delayer]. The controller that runs beside the Delayer hands what it holds back to the
// broker, for others or for later.
func (c *Controller) Close() error {
	stopped := make(chan struct{})
	go func() { // both may have to wait for the broker, together no longer than one
		defer close(stopped)
		c.stopRunner()
	}()
	err := c.Engine.Close()
	<-stopped
	return err
}

// RemoveTopology deletes the queues and everything that waits in them, and the queue for unroutable messages. It
// stops the controller that runs beside this Delayer first. Stop those that run elsewhere before: they would declare
// their queues again.
func (c *Controller) RemoveTopology(ctx context.Context) error {
	c.stopRunner()
	return c.Engine.RemoveTopology(ctx, c.blueprint.plan())
}

// stopRunner returns, to all who call it, once the controller has stopped.
func (c *Controller) stopRunner() {
	c.stop.Do(func() {
		if c.runner != nil {
			c.runner.close()
		}
	})
}
