package baseline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// The baselines by name.
const (
	PerMessageTTL = "per-message-ttl"
	TopEntry      = "top-entry"
	BitEntry      = "bit-entry"
	Undelayed     = "undelayed"
)

// Names returns every baseline's name.
func Names() []string { return []string{PerMessageTTL, TopEntry, BitEntry, Undelayed} }

// Config says which baseline to open, and where.
type Config struct {
	URL         string
	Name        string // one of Names
	Prefix      string // every broker object's name begins with it
	QueueType   string // "quorum" or "classic": where messages wait
	Destination string // the existing queue that every message goes to, a single word without dots

	// Tick is the resolution of the ladders, whole milliseconds; the published ladders have a
	// second, as 0 does.
	Tick time.Duration
	// Existing says that everything may be there already, with messages in it: then Open removes
	// nothing when it fails.
	Existing bool
}

// A Baseline is a Delayer with one destination. See the package comment for what it does not do.
type Baseline struct {
	*publisher
	limits   delayer.Limits
	topology topology
	route    router
}

var _ delayer.Delayer = (*Baseline)(nil)

// A router decides where a message enters and under which key, and may set its expiration. ticks is
// the delay, rounded up to the baseline's resolution.
type router func(ticks int64, msg *amqp091.Publishing) (exchange, key string)

// design is what tells one baseline from another.
type design struct {
	topology topology
	route    router
	limits   delayer.Limits
}

// Open connects, declares what the baseline needs and binds the destination.
func Open(ctx context.Context, cfg Config) (*Baseline, error) {
	plan, err := planFor(cfg)
	if err != nil {
		return nil, err
	}
	p, err := openPublisher(ctx, cfg.URL, cfg.Prefix)
	if err != nil {
		return nil, err
	}
	b := &Baseline{publisher: p, limits: plan.limits, topology: plan.topology, route: plan.route}
	if err := b.topology.apply(p.conn); err != nil {
		if !cfg.Existing {
			_ = b.RemoveTopology(ctx)
		}
		_ = b.Close()
		return nil, &delayer.Error{Op: "declare", Backend: cfg.Name, Kind: delayer.ErrUnavailable, Cause: err}
	}
	return b, nil
}

func planFor(cfg Config) (design, error) {
	if !slices.Contains([]string{"classic", "quorum"}, cfg.QueueType) {
		return design{}, configError("queue_type", cfg.QueueType, "classic or quorum")
	}
	if cfg.Destination == "" || strings.ContainsAny(cfg.Destination, ".*#") {
		return design{}, configError("destination", cfg.Destination, "a queue whose name is a single word")
	}
	switch cfg.Name {
	case PerMessageTTL:
		return ttlDesign(cfg), nil
	case TopEntry, BitEntry:
		return ladderDesign(cfg), nil
	case Undelayed:
		return undelayedDesign(cfg), nil
	}
	return design{}, configError("baseline", cfg.Name, strings.Join(Names(), ", "))
}

func configError(key, value, want string) error {
	return &delayer.Error{Op: "open", Backend: "baseline", Object: key, Kind: delayer.ErrConfig,
		Cause: fmt.Errorf("%q", value), Hint: "use " + want}
}

// Publish sends msg to the one destination; exchange must be "" and key that queue's name.
func (b *Baseline) Publish(
	ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing,
) error {
	if exchange != "" || key != b.topology.destination {
		return &delayer.Error{Op: "publish", Object: key, Kind: delayer.ErrInvalid,
			Hint: "a baseline knows only the destination it was opened with"}
	}
	if delay < 0 || delay > b.limits.Max {
		return &delayer.Error{Op: "publish", Object: delay.String(), Kind: delayer.ErrOutOfRange}
	}
	ticks := int64((delay + b.limits.Resolution - 1) / b.limits.Resolution)
	msg.DeliveryMode = amqp091.Persistent
	entry, routingKey := b.route(ticks, &msg)
	return b.publish(ctx, entry, routingKey, msg)
}

// Limits tells the longest delay and the resolution; no guarantee is declared.
func (b *Baseline) Limits() delayer.Limits { return b.limits }

// RemoveTopology deletes every exchange and queue that Open declared, with the messages in them.
func (b *Baseline) RemoveTopology(context.Context) error { return b.topology.remove(b.conn) }

// undelayedDesign needs nothing but the destination.
func undelayedDesign(cfg Config) design {
	return design{
		topology: topology{destination: cfg.Destination},
		limits:   delayer.Limits{Max: 1<<63 - 1 - time.Millisecond, Resolution: time.Millisecond},
		route: func(int64, *amqp091.Publishing) (string, string) {
			return "", cfg.Destination
		},
	}
}
