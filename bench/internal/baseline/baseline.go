// Package baseline has the well-known methods to delay messages on RabbitMQ that Delayer is
// compared with; see bench.Baselines. Like the originals, they are early, block or lose messages.
//
// # What waits where
//
// Everything has names under Config.Prefix and is removed by [Remove]. Waiting queues are classic,
// or quorum with at-least-once dead-lettering.
//
// # Fair play
//
// Each baseline has one connection with one channel in confirm mode and deferred confirms, so that
// any number of goroutines pipeline over it, and publishes persistent messages. It does not ask for
// returns (mandatory) and adds no header, which spares it work that a Delayer does.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/topology"
)

// The baselines by name.
const (
	PerMessageTTL = "per-message-ttl"
	MixedTiers    = "mixed-tiers"
	TopEntry      = "top-entry"
	BitEntry      = "bit-entry"
	Undelayed     = "undelayed"
	XDelay        = "x-delay" // an exchange that is there: see Config.Exchange
)

// Config says which baseline to open, and where.
type Config struct {
	URL         string
	Name        string // one of the constants
	Prefix      string // every broker object's name begins with it
	QueueType   string // "quorum" or "classic": where messages wait
	Destination string // the existing queue that every message goes to, a single word without dots

	// Exchange delays what is published to it by its header x-delay, and Behind has what is due.
	// Only for XDelay.
	Exchange, Behind string
	// Tick is the resolution of the ladders in whole milliseconds; 0 is a second, as published.
	Tick time.Duration
}

// A design is what tells one baseline from another.
type design struct {
	topology topology.Plan
	limits   delayer.Limits
	// route decides where a message enters and under which key, and may set its expiration. ticks
	// is the delay, rounded up to the resolution.
	route func(ticks int64, msg *amqp091.Publishing) (exchange, key string)
}

func designOf(cfg Config) (design, error) {
	switch cfg.Name {
	case PerMessageTTL:
		return ttlDesign(cfg, 0), nil
	case MixedTiers:
		const second = 1000
		return ttlDesign(cfg, second, 5*second, 10*second, 20*second), nil
	case TopEntry, BitEntry:
		return ladderDesign(cfg), nil
	case XDelay:
		return design{
			topology: topology.Plan{Bindings: []topology.Binding{{Source: cfg.Behind, Key: cfg.Destination, Target: cfg.Destination}}},
			limits:   milliseconds32,
			route: func(ms int64, msg *amqp091.Publishing) (string, string) {
				msg.Headers = amqp091.Table{"x-delay": ms}
				return cfg.Exchange, cfg.Destination
			},
		}, nil
	case Undelayed:
		return design{
			limits: delayer.Limits{Max: 1<<63 - 1 - time.Millisecond, Resolution: time.Millisecond},
			route:  func(int64, *amqp091.Publishing) (string, string) { return "", cfg.Destination },
		}, nil
	}
	return design{}, fmt.Errorf("unknown baseline %q", cfg.Name)
}

// milliseconds32 are the limits of an unsigned 32-bit number of milliseconds, as an expiration and
// the header x-delay are.
var milliseconds32 = delayer.Limits{Max: (1<<32 - 1) * time.Millisecond, Resolution: time.Millisecond}

// ttlDesign is a queue for delays up to each of these, in milliseconds, and the last one also for
// those beyond. The message's own expiration ends its delay.
//
// The queues dead-letter to a direct exchange of their own rather than to the default exchange: the
// routing key is then the destination's name on both sides, and nothing is rewritten.
func ttlDesign(cfg Config, tiers ...int64) design {
	out := cfg.Prefix + ".out"
	in := func(tier int) string { return fmt.Sprintf("%s.in-%d", cfg.Prefix, tiers[tier]) }
	p := topology.Plan{
		Exchanges: []topology.Exchange{{Name: out, Kind: topology.Direct}},
		Bindings:  []topology.Binding{{Source: out, Key: cfg.Destination, Target: cfg.Destination}},
	}
	for tier, longest := range tiers {
		q := waitingQueue(fmt.Sprintf("%s.wait-%d", cfg.Prefix, longest), cfg.QueueType, out, 0)
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: in(tier), Kind: topology.Direct})
		p.Queues = append(p.Queues, q)
		p.Bindings = append(p.Bindings, topology.Binding{Source: in(tier), Key: cfg.Destination, Target: q.Name})
	}
	return design{
		topology: p,
		limits:   milliseconds32,
		route: func(ms int64, msg *amqp091.Publishing) (string, string) {
			msg.Expiration = strconv.FormatInt(ms, 10)
			tier, _ := slices.BinarySearch(tiers, ms)
			return in(min(tier, len(tiers)-1)), cfg.Destination
		},
	}
}

// baseline is a Delayer with one destination, whatever the exchange and key of a message.
type baseline struct {
	delayer.NoTickets
	design
	conn *amqp091.Connection
	ch   *amqp091.Channel
}

// Open connects, declares what the baseline needs and binds the destination.
func Open(ctx context.Context, cfg Config) (delayer.Delayer, error) {
	design, err := designOf(cfg)
	if err != nil {
		return nil, err
	}
	b := &baseline{design: design}
	if b.conn, err = amqpclient.Dial(ctx, cfg.URL, cfg.Prefix); err != nil {
		return nil, err
	}
	err = onChannel(b.conn, b.topology, declare)
	if err != nil {
		_ = onChannel(b.conn, b.topology, remove)
	}
	if err == nil {
		b.ch, err = b.conn.Channel()
	}
	if err == nil {
		err = b.ch.Confirm(wait)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", cfg.Name, err), b.Close())
	}
	return b, nil
}

// Remove deletes every exchange and queue that Open declares, with the messages in them.
func Remove(ctx context.Context, cfg Config) error {
	design, err := designOf(cfg)
	if err != nil {
		return err
	}
	conn, err := amqpclient.Dial(ctx, cfg.URL, cfg.Prefix)
	if err != nil {
		return err
	}
	return errors.Join(onChannel(conn, design.topology, remove), (&baseline{conn: conn}).Close())
}

func (b *baseline) Publish(
	ctx context.Context, _, _ string, delay time.Duration, msg amqp091.Publishing,
) error {
	if delay < 0 || delay > b.limits.Max {
		return &delayer.Error{Op: "publish", Object: delay.String(), Kind: delayer.ErrOutOfRange}
	}
	ticks := int64((delay + b.limits.Resolution - 1) / b.limits.Resolution)
	msg.DeliveryMode = amqp091.Persistent
	exchange, key := b.route(ticks, &msg)
	const mandatory, immediate = false, false
	confirm, err := b.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("publish: %w", err)
	case acked:
		return nil
	case b.ch.IsClosed():
		return errors.New("publish: connection lost") // it resolves its confirms as if they were refused
	}
	return errors.New("publish: refused by the broker")
}

func (b *baseline) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, b.Publish, messages)
}

// Limits tells the longest delay and the resolution; no guarantee is declared.
func (b *baseline) Limits() delayer.Limits { return b.limits }

// Close may be called more than once.
func (b *baseline) Close() error {
	const timeout = 5 * time.Second // a broker that is gone must not delay the end of a benchmark
	err := b.conn.CloseDeadline(time.Now().Add(timeout))
	if errors.Is(err, amqp091.ErrClosed) {
		return nil
	}
	return err
}
