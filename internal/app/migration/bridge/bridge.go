// Package bridge passes on what is published to an exchange that was one of the plugin, for services that
// cannot be released: an entry (see package entry) whose destination is the exchange that has the former
// bindings.
//
// What the plugin itself has delivered goes straight on if its x-delay is negative, as it is from
// RabbitMQ 4.0 on. Before that it looks like a new message, and waits again.
package bridge

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
)

// Config says what to pass on.
type Config struct {
	entry.Config
	Exchange string
	API      *inventory.API // nil: bindings that others make on the exchange are not seen

	TrustTimestamps, KeepXDelay bool // as of [entry.Entry]
}

// A Bridge is ready to run.
type Bridge struct {
	cfg     Config
	names   names
	log     *slog.Logger
	runner  *entry.Runner
	control *broker.Control
}

// names are the objects of one bridge.
type names struct{ bridge, behind string }

func namesOf(prefix, exchange string) names {
	return names{bridge: record.Bridge(prefix, exchange), behind: record.Behind(prefix, exchange)}
}

// Open connects, looks for what the switch has made, and declares the rest. Its errors are those of
// package delayer.
func Open(ctx context.Context, cfg Config) (*Bridge, error) {
	runner, err := entry.Open(ctx, cfg.Config)
	if err != nil {
		return nil, err
	}
	b := &Bridge{cfg: cfg, names: namesOf(cfg.Settings.Prefix, cfg.Exchange), runner: runner, control: runner.Control()}
	b.log = cfg.Settings.BrokerOptions("").Slog().With("exchange", cfg.Exchange)
	if err := b.prepare(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// prepare looks for the queue and the exchange behind, which the switch makes.
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
	prefix := b.cfg.Settings.Prefix
	return b.runner.Add(ctx, entry.Entry{
		Exchange: b.cfg.Exchange, Names: record.BridgeNames(prefix, b.cfg.Exchange),
		To: entry.Destinations{To: b.names.behind}, Plan: record.BridgeSide(prefix, b.cfg.Exchange),
		TrustTimestamps: b.cfg.TrustTimestamps, KeepXDelay: b.cfg.KeepXDelay,
	})
}

// Run passes messages on until ctx ends. Then it takes no more, waits up to ten seconds for those
// that are under way, and gives back the others.
func (b *Bridge) Run(ctx context.Context) {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if b.cfg.API != nil {
			b.watch(ctx)
		}
	}()
	b.runner.Run(ctx)
	<-watched
}

// Counts are how many messages were passed on, by what was done with them.
func (b *Bridge) Counts() iter.Seq2[string, int64] { return b.runner.Counts() }

// Close ends the connections. Call it after Run.
func (b *Bridge) Close() { b.runner.Close() }
