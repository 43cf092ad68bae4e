package bench

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/internal/lib/topicladder"
	"github.com/delayer-go/delayer/topology"
)

// Names of baselines that are treated apart.
const (
	MixedTiers = "mixed-tiers" // measured only where it is asked for
	TopEntry   = "top-entry"   // takes so few messages a second that scenario rate takes minutes
)

// Baselines returns the well-known methods to delay messages on RabbitMQ, to compare a subject
// with, and plain publishing without a delay, the floor. queueType is that of the queues in which
// messages wait. Like the originals they are early, block or lose messages.
func Baselines(queueType string) []Subject {
	const second = 1000
	tiers := func(tiers ...int64) func(Env) design {
		return func(env Env) design { return ttlDesign(env, queueType, tiers...) }
	}
	ladder := func(atTop bool) func(Env) design {
		return func(env Env) design { return ladderDesign(env, queueType, atTop) }
	}
	var out []Subject
	for _, s := range []struct {
		Subject
		of func(Env) design
	}{
		{Subject{Backend: "bit-entry", About: "a topic exchange and a queue for each bit of a delay, entered at its highest bit, as NServiceBus does"}, ladder(false)},
		{Subject{Backend: TopEntry, About: "the same, entered at the top whatever the delay, as Celery does"}, ladder(true)},
		{Subject{Backend: "per-message-ttl", Blocks: true, About: "one queue; the delay is the message's own expiration"}, tiers(0)},
		{Subject{Backend: MixedTiers, Blocks: true, About: "four such queues, for delays up to 1, 5, 10 and 20 s"},
			tiers(second, 5*second, 10*second, 20*second)},
		{Subject{Backend: "undelayed", Undelayed: true, About: "published to the destination at once: the floor"}, undelayed},
	} {
		s.QueueType, s.Baseline = queueType, true
		s.Open = func(ctx context.Context, env Env) (delayer.Delayer, error) { return openBaseline(ctx, env, s.of(env)) }
		s.Remove = func(ctx context.Context, env Env) error { return removeBaseline(ctx, env, s.of(env)) }
		out = append(out, s.Subject)
	}
	return out
}

// OpenClient opens a plain client: it publishes to an exchange that reads the header x-delay. What
// is due there comes to the exchange behind, to which the destination is bound. Both must be there.
func OpenClient(ctx context.Context, env Env, exchange, behind string) (delayer.Delayer, error) {
	return openBaseline(ctx, env, design{
		topology: topology.Plan{Bindings: []topology.Binding{{Source: behind, Key: env.Destination, Target: env.Destination}}},
		limits:   milliseconds32,
		route: func(ms int64, msg *amqp091.Publishing) (string, string) {
			msg.Headers = amqp091.Table{"x-delay": ms}
			return exchange, env.Destination
		},
	})
}

func undelayed(env Env) design {
	return design{
		limits: delayer.Limits{Max: 1<<63 - 1 - time.Millisecond, Resolution: time.Millisecond},
		route:  func(int64, *amqp091.Publishing) (string, string) { return "", env.Destination },
	}
}

// A design is what tells one baseline from another.
type design struct {
	topology topology.Plan
	limits   delayer.Limits
	// route decides where a message enters and under which key, and may set its expiration. ticks
	// is the delay, rounded up to the resolution.
	route func(ticks int64, msg *amqp091.Publishing) (exchange, key string)
}

// milliseconds32 are the limits of an unsigned 32-bit number of milliseconds, as an expiration and
// the header x-delay are.
var milliseconds32 = delayer.Limits{Max: (1<<32 - 1) * time.Millisecond, Resolution: time.Millisecond}

// ttlDesign is a queue for delays up to each of these, in milliseconds, and the last one also for
// those beyond. The message's own expiration ends its delay. A direct exchange of their own, not the
// default exchange, is behind the queues: so the routing key needs not be rewritten.
func ttlDesign(env Env, queueType string, tiers ...int64) design {
	out := env.Prefix + ".out"
	in := func(tier int) string { return fmt.Sprintf("%s.in-%d", env.Prefix, tiers[tier]) }
	p := topology.Plan{
		Exchanges: []topology.Exchange{{Name: out, Kind: amqp091.ExchangeDirect}},
		Bindings:  []topology.Binding{{Source: out, Key: env.Destination, Target: env.Destination}},
	}
	for tier, longest := range tiers {
		q := waitingQueue(fmt.Sprintf("%s.wait-%d", env.Prefix, longest), queueType, out, 0)
		p.Exchanges = append(p.Exchanges, topology.Exchange{Name: in(tier), Kind: amqp091.ExchangeDirect})
		p.Queues = append(p.Queues, q)
		p.Bindings = append(p.Bindings, topology.Binding{Source: in(tier), Key: env.Destination, Target: q.Name})
	}
	return design{
		topology: p,
		limits:   milliseconds32,
		route: func(ms int64, msg *amqp091.Publishing) (string, string) {
			msg.Expiration = strconv.FormatInt(ms, 10)
			tier, _ := slices.BinarySearch(tiers, ms)
			return in(min(tier, len(tiers)-1)), env.Destination
		},
	}
}

// levels are those of the published ladders: 28 levels of 1 s reach 8.5 years.
const levels = 28

// ladderDesign is the ladder as its authors published it: the routing key spells the delay in
// binary, highest bit first, then the destination. Below level 0 a last exchange delivers by
// "#.destination". A message enters at the top, or at its highest set bit.
func ladderDesign(env Env, queueType string, atTop bool) design {
	root := env.Prefix + ".deliver"
	ladder := topicladder.Ladder{
		Levels: levels, End: root,
		Exchange: func(level int) string { return fmt.Sprintf("%s.level-%d", env.Prefix, level) },
		Queue: func(level int, next string) topology.Queue {
			return waitingQueue(fmt.Sprintf("%s.wait-%d", env.Prefix, level), queueType, next, env.Tick<<level)
		},
	}
	return design{
		topology: topology.Plan{
			Exchanges: []topology.Exchange{{Name: root, Kind: amqp091.ExchangeTopic}},
			Bindings:  []topology.Binding{{Source: root, Key: "#." + env.Destination, Target: env.Destination}},
		}.Add(ladder.Plan()),
		limits: delayer.Limits{Max: (1<<levels - 1) * env.Tick, Resolution: env.Tick},
		route: func(ticks int64, _ *amqp091.Publishing) (string, string) {
			key := ladder.Key(ticks, env.Destination)
			switch {
			case atTop:
				return ladder.Exchange(levels - 1), key
			case ticks == 0:
				return root, key
			}
			return ladder.Exchange(bits.Len64(uint64(ticks)) - 1), key
		},
	}
}

// waitingQueue is a queue in which messages wait, ttl long if that is not 0, before they go to the
// exchange next.
func waitingQueue(name, queueType, next string, ttl time.Duration) topology.Queue {
	args := amqp091.Table{"x-queue-type": queueType, "x-dead-letter-exchange": next}
	if ttl > 0 {
		args["x-message-ttl"] = ttl.Milliseconds()
	}
	if queueType == "quorum" {
		// At-least-once is silently off without reject-publish.
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return topology.Queue{Name: name, Args: args}
}

// A baseline is a Delayer with one destination, whatever the exchange and key of a message. It has
// one connection with one channel in confirm mode and deferred confirms, so that any number of
// goroutines pipeline over it, and publishes persistent messages. It does not ask for returns
// (mandatory) and adds no header, which spares it work that a Delayer does.
type baseline struct {
	delayer.NoTickets
	design
	conn *amqp091.Connection
	ch   *amqp091.Channel
}

func openBaseline(ctx context.Context, env Env, of design) (delayer.Delayer, error) {
	err := atBroker(ctx, env, func(c *amqpclient.Client) error { return c.Declare(ctx, of.topology) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the baseline: %w", err), removeBaseline(ctx, env, of))
	}
	b := &baseline{design: of}
	if b.conn, err = amqpclient.Dial(ctx, env.URL, env.Prefix); err != nil {
		return nil, err
	}
	if b.ch, err = b.conn.Channel(); err == nil {
		const noWait = false
		err = b.ch.Confirm(noWait)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the baseline: %w", err), b.Close())
	}
	return b, nil
}

// removeBaseline deletes every exchange and queue that openBaseline declares, with the messages in
// them.
func removeBaseline(ctx context.Context, env Env, of design) error {
	return atBroker(ctx, env, func(c *amqpclient.Client) error { return c.Remove(ctx, of.topology) })
}

// atBroker does something on a connection of its own.
func atBroker(ctx context.Context, env Env, do func(*amqpclient.Client) error) error {
	client, err := amqpclient.Open(ctx, amqpclient.Options{URLs: []string{env.URL}, Name: env.Prefix})
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
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
	return amqpclient.Publish(ctx, b.ch, exchange, key, msg)
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
