// Package bridge passes on what is published to an exchange that was one of the plugin, for
// services that cannot be released: messages with a positive x-delay through a Delayer, all others
// at once, to the exchange that has the former bindings.
//
// What the plugin itself has delivered goes straight on if its x-delay is negative, as it is from
// RabbitMQ 4.0 on. Before that it looks like a new message, and waits again.
//
// A message is acknowledged once it is confirmed where it goes: at least once. Any number of
// bridges may work on an exchange. What cannot be passed on goes to a queue of parked messages,
// which `delayer messages` reads.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// Config says what to pass on.
type Config struct {
	Settings engine.Settings // broker and prefix
	Delayer  delayer.Delayer // of the same broker; the caller closes it
	Exchange string
	Prefetch int            // how many messages are under way at a time
	API      *inventory.API // nil: bindings that others make on the exchange are not seen

	// TrustTimestamps counts a delay from the timestamp of the message, not from when the bridge
	// reads it. A publisher whose clock is behind the bridge's makes messages early then.
	TrustTimestamps bool
	// KeepHeader gives consumers the x-delay header that the plugin leaves. Each delayed message
	// then passes the bridge a second time.
	KeepHeader bool
}

// A Bridge is ready to run.
type Bridge struct {
	cfg       Config
	names     names
	log       *slog.Logger
	in        *broker.Conn // consumes
	control   *broker.Control
	publisher *broker.Publisher
	forwarder *forwarder
}

// Open connects, looks for what the switch has made, and declares the rest. Its errors are those of
// package delayer.
func Open(ctx context.Context, cfg Config) (*Bridge, error) {
	b := &Bridge{cfg: cfg, names: namesOf(cfg.Settings.Prefix, cfg.Exchange)}
	b.log = cfg.Settings.BrokerOptions("").Slog().With("exchange", cfg.Exchange)
	if err := b.open(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Bridge) open(ctx context.Context) error {
	reading := b.cfg.Settings.BrokerOptions("bridge")
	reading.LargeFrames = true
	var err error
	if b.in, err = broker.Dial(ctx, reading); err != nil {
		return err
	}
	asking, err := broker.Dial(ctx, b.cfg.Settings.BrokerOptions("bridge control"))
	if err != nil {
		return err
	}
	b.control = broker.NewControl(asking)
	if err := b.prepare(ctx); err != nil {
		return err
	}
	out, err := broker.Dial(ctx, b.cfg.Settings.BrokerOptions("bridge publish"))
	if err != nil {
		return err
	}
	impersonate, err := impersonates(ctx, asking)
	b.publisher = broker.NewPublisher("", func() {}, out)
	b.forwarder = &forwarder{
		rules: rules{
			names: b.names, limits: b.cfg.Delayer.Limits(), user: out.User(), impersonate: impersonate,
			trust: b.cfg.TrustTimestamps, keep: b.cfg.KeepHeader, turns: turns(out),
		},
		delayer: b.cfg.Delayer, direct: b.publisher.PublishDirect, declare: b.declare, log: b.log,
		frame: func() int { size, _, _ := out.Server(); return size },
	}
	return err
}

// turns reports whether consumers see x-delay with its sign turned on what the plugin has
// delivered. Before RabbitMQ 4.0 they see it as it was published: the plugin changes only the
// decoded form of the headers.
func turns(conn *broker.Conn) bool {
	_, _, version := conn.Server()
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 4
}

// prepare looks for the queue and the exchange behind, which the switch makes, and declares the
// other objects of the bridge.
func (b *Bridge) prepare(ctx context.Context) error {
	for _, object := range []struct{ exchange, key string }{{"", b.names.bridge}, {b.names.behind, ""}} {
		presence, err := delivery.Exists(ctx, b.control, object.exchange, object.key)
		if err != nil {
			return err
		}
		if presence == delivery.Gone {
			return &delayer.Error{
				Op: "bridge", Object: fmt.Sprintf("exchange %q", b.cfg.Exchange), Kind: delayer.ErrNotFound,
				Cause: fmt.Errorf("there is no %s", delivery.Place(object.exchange, object.key)),
				Hint:  "run delayer migrate switch --mode bridge first, with the same prefix",
			}
		}
	}
	return b.declare(ctx)
}

func (b *Bridge) declare(ctx context.Context) error {
	return objects.Of(b.control, "").Apply(ctx, record.BridgeSide(b.cfg.Settings.Prefix, b.cfg.Exchange))
}

// impersonates reports whether the broker lets this user publish with the user-id of another. It
// closes the channel over it otherwise.
func impersonates(ctx context.Context, conn *broker.Conn) (bool, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = ch.Close() }()
	const mandatory, immediate = true, true
	if err := ch.Confirm(waitForAnswer); err != nil {
		return false, err
	}
	const nobody, nowhere = "delayer.nobody", "delayer.nowhere"
	confirm, err := ch.PublishWithDeferredConfirm("", nowhere, !mandatory, !immediate, amqp091.Publishing{UserId: conn.User() + nobody})
	if err != nil {
		return false, err
	}
	return confirm.WaitContext(ctx)
}

// Run passes messages on until ctx ends. Then it takes no more, waits up to ten seconds for those
// that are under way, and gives back the others.
func (b *Bridge) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, queue := range []string{b.names.bridge, b.names.back} {
		running.Go(func() { b.consume(ctx, queue) })
	}
	if b.cfg.API != nil {
		running.Go(func() { b.watch(ctx) })
	}
	running.Wait()
	var counts []any
	for action, n := range b.Counts() {
		counts = append(counts, action, n)
	}
	b.log.Info("the bridge has stopped", counts...)
}

// Counts are how many messages were passed on, by what was done with them.
func (b *Bridge) Counts() iter.Seq2[string, int64] { return b.forwarder.passed }

func (b *Bridge) consume(ctx context.Context, queue string) {
	broker.Consume(ctx, b.in, broker.Consuming{
		Queue: queue, Prefetch: b.cfg.Prefetch,
		Serve: func(alive context.Context, messages <-chan amqp091.Delivery) {
			b.forwarder.serve(ctx, alive, queue, messages)
		},
		Failed: func(ctx context.Context, err error) {
			b.log.Warn("the bridge has lost its consumer; what was not passed on comes again", "queue", queue, "error", err)
			if broker.Code(err) == amqp091.NotFound && queue == b.names.back {
				if err := b.declare(ctx); err != nil && !errors.Is(err, context.Canceled) {
					b.log.Warn("the bridge's queue is gone and cannot be declared", "queue", queue, "error", err)
				}
			}
		},
	})
}

// Close ends the connections. Call it after Run.
func (b *Bridge) Close() {
	if b.publisher != nil {
		b.publisher.Close()
	}
	if b.control != nil {
		b.control.Close()
	}
	if b.in != nil {
		b.in.Close()
	}
}
