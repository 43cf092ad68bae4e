package backend_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// The conformance suite on an exchange of our own is in internal/lab/tests/conformance. An exchange
// of the user has one destination only, so the suite does not fit it: plugin_existing_test.go is
// about those.

// A pluginUser has an exchange of their own for the plugin, and queues.
type pluginUser struct {
	*rabbittest.Rig
	name string // of the exchange
}

func newPluginUser(t *testing.T) *pluginUser {
	r := rabbittest.NewRig(t, rabbittest.NeedPlugin(t, rabbittest.DelayedMessages))
	return &pluginUser{r, r.Prefix + "-user"}
}

// exchange declares it; a flag is named in flags.
func (r *pluginUser) exchange(kind string, args amqp091.Table, flags ...string) string {
	r.Helper()
	has := func(flag string) bool { return slices.Contains(flags, flag) }
	require.NoError(r, r.Ch.ExchangeDeclare(r.name, kind, !has("transient"), has("auto-delete"), has("internal"), false, args))
	name := r.name
	r.Cleanup(func() { r.Fresh(func(ch *amqp091.Channel) error { return ch.ExchangeDelete(name, false, false) }) })
	return name
}

// queue declares one, bound to the exchange, and returns what arrives there.
func (r *pluginUser) queue(hint, key, exchange string) <-chan amqp091.Delivery {
	r.Helper()
	name := r.Queue(hint, nil)
	r.Bind(name, key, exchange, nil)
	return r.Consume(name)
}

func (r *pluginUser) open(cfg plugin.Config) delayer.Delayer {
	r.Helper()
	p, err := r.tryOpen(r.options(), cfg)
	require.NoError(r, err)
	r.Cleanup(func() { _ = p.Close() })
	return p
}

func (r *pluginUser) options() delayer.Options { return pluginOptions(r, r.Broker) }

func (r *pluginUser) tryOpen(opts delayer.Options, cfg plugin.Config) (delayer.Delayer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cfg.Options = opts
	return plugin.Open(ctx, cfg)
}

func pluginOptions(t testing.TB, b *rabbit.Broker) delayer.Options {
	return delayer.Options{
		URL: b.URL(), Logger: slog.New(slog.DiscardHandler),
		Prefix: rabbittest.Prefix(t), QueueType: delayer.Quorum, Connections: 1,
	}
}
