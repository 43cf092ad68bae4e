package backend_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

var delayedTopic = amqp091.Table{"x-delayed-type": "topic"}

// TestExistingExchange publishes through the user's exchange, to what is bound there and nowhere
// else, and declares nothing.
func TestExistingExchange(t *testing.T) {
	t.Parallel()
	r := newPluginUser(t)
	exchange := r.exchange("x-delayed-message", delayedTopic)
	boxes := []<-chan amqp091.Delivery{
		r.queue("key", "a.key", exchange), r.queue("cc", "cc.key", exchange), r.queue("bcc", "bcc.key", exchange),
	}
	opts := r.options()
	p, err := r.tryOpen(opts, plugin.Config{Exchange: exchange})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
		before := time.Now()
		require.NoError(t, p.Publish(t.Context(), exchange, "a.key", delay, amqp091.Publishing{
			Body: []byte("body"), MessageId: "id",
			Headers: amqp091.Table{"CC": []any{"cc.key"}, "BCC": []any{"bcc.key"}, "x-delay": int64(60_000), "own": "header"},
		}))
		for _, box := range boxes {
			d := rabbittest.Next(t, box)
			require.False(t, time.Now().Before(before.Add(delay)), "early")
			assert.Equal(t, []string{exchange, "a.key", "body", "id"}, []string{d.Exchange, d.RoutingKey, string(d.Body), d.MessageId})
			assert.Equal(t, "header", d.Headers["own"])
			assert.NotContains(t, d.Headers, "BCC")
			assert.Contains(t, d.Headers, delayer.Header)
		}
	}
	require.ErrorIs(t, p.Publish(t.Context(), exchange, "other", 0, amqp091.Publishing{}), delayer.ErrUnroutable)
	for _, other := range []string{"", "amq.topic"} {
		for _, delay := range []time.Duration{0, time.Second} {
			err := p.Publish(t.Context(), other, "key", delay, amqp091.Publishing{})
			require.ErrorIs(t, err, delayer.ErrInvalid)
			require.ErrorContains(t, err, fmt.Sprintf("publish to %q", exchange))
			require.True(t, delayer.SafeToRetry(err))
		}
	}
	cfg := backend.Config{Options: opts, Backend: plugin.Name, Plugin: plugin.Config{Exchange: exchange}}
	require.ErrorIs(t, backend.Remove(t.Context(), cfg, true), delayer.ErrConfig, "there is nothing of ours")
	require.NoError(t, r.Ch.ExchangeDeclarePassive(exchange, "x-delayed-message", true, false, false, false, nil), "the user's stays")
	r.Fresh(func(ch *amqp091.Channel) error {
		require.ErrorContains(t, ch.ExchangeDeclarePassive(opts.Prefix+".delivery", "direct", true, false, false, false, nil), "404")
		return nil
	})

	require.NoError(t, r.Ch.ExchangeDelete(exchange, false, false))
	require.Eventually(t, func() bool {
		return errors.Is(p.Publish(t.Context(), exchange, "a.key", time.Millisecond, amqp091.Publishing{}), delayer.ErrUnroutable)
	}, rabbittest.Patience, 50*time.Millisecond)
	r.exchange("x-delayed-message", delayedTopic)
	box := r.queue("again", "#", exchange)
	require.NoError(t, p.Publish(t.Context(), exchange, "key", time.Millisecond, amqp091.Publishing{}))
	rabbittest.Next(t, box)
}

// TestExistingExchange_Policy: what would make messages early there is seen, as where the exchange
// is ours.
func TestExistingExchange_Policy(t *testing.T) {
	t.Parallel()
	r := newPluginUser(t)
	opts := r.options()
	if opts.Management = r.Broker.Management(); opts.Management == "" {
		rabbittest.Skipf(t, "needs a broker of our own with rabbitmq_management")
	}
	exchange := r.exchange("x-delayed-message", delayedTopic)
	lift := setPolicy(t, r.Broker, exchange, `{"alternate-exchange":"amq.fanout"}`)
	_, err := r.tryOpen(opts, plugin.Config{Exchange: exchange})
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "a copy of every delayed message")
	lift()
	p, err := r.tryOpen(opts, plugin.Config{Exchange: exchange})
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r := newPluginUser(t)
	limits := r.open(plugin.Config{}).Limits()
	assert.Equal(t, delayer.Limits{
		Max: 4_294_967_295 * time.Millisecond, Resolution: time.Millisecond, Ordered: true,
		ReportsUnroutable: true, KeepsUnroutable: true, ExactTopics: true, MaxPriority: 255,
	}, limits)
	existing := limits
	existing.KeepsUnroutable = false
	durable := r.exchange("x-delayed-message", delayedTopic, "auto-delete")
	assert.Equal(t, existing, r.open(plugin.Config{Exchange: durable}).Limits())
	r.name += "-transient"
	transient := r.exchange("x-delayed-message", delayedTopic, "transient", "auto-delete")
	assert.Equal(t, existing, r.open(plugin.Config{Exchange: transient}).Limits())
}

func TestOpen_NoPlugin(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t, rabbit.Options{}) // which enables no plugin
	for _, cfg := range []plugin.Config{{}, {Exchange: "theirs"}, {Exchange: "amq.topic"}} {
		ctx := within(t)
		p, err := backend.Open(ctx, backend.Config{Options: pluginOptions(t, b), Backend: plugin.Name, Plugin: cfg})
		require.Nil(t, p)
		require.ErrorIs(t, err, delayer.ErrNotFound)
		assert.ErrorContains(t, err, "RabbitMQ "+b.Version()+" has no exchange type x-delayed-message")
		for _, other := range []string{"binaryladder", "fixedtiers", "controller"} {
			assert.ErrorContains(t, err, other)
		}
		assert.NoError(t, ctx.Err(), "it must not be tried again and again")
	}
	conn, err := amqp091.Dial(b.URL())
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the broker ends next
	list, err := b.Ctl(t.Context(), "list_exchanges", "-q", "name")
	require.NoError(t, err)
	assert.NotContains(t, list, "t-", "nothing is left")
}

func TestOpen_UnfitExchange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  string
		args  amqp091.Table
		flags []string
		err   error
		says  string
	}{
		"missing":          {err: delayer.ErrUnroutable, says: "does not exist"},
		"another type":     {kind: "topic", err: delayer.ErrConflict, says: "is not of type x-delayed-message"},
		"another, passing": {kind: "direct", flags: []string{"transient", "auto-delete"}, err: delayer.ErrConflict, says: "is not of type x-delayed-message"},
		"internal":         {kind: "x-delayed-message", args: delayedTopic, flags: []string{"internal"}, err: delayer.ErrConflict, says: "is internal"},
		"alternate": {kind: "x-delayed-message", args: amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"},
			flags: []string{"transient", "auto-delete"}, err: delayer.ErrConflict, says: "alternate exchange"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPluginUser(t)
			if c.kind != "" {
				r.exchange(c.kind, c.args, c.flags...)
			}
			p, err := r.tryOpen(r.options(), plugin.Config{Exchange: r.name})
			require.Nil(t, p)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.says)
			if c.kind == "" {
				require.ErrorContains(t, r.Ch.ExchangeDeclarePassive(r.name, "direct", true, false, false, false, nil), "404", "it must not be created")
			}
		})
	}
}

// The conformance suite on an exchange of our own is in internal/lab/tests/conformance. An exchange
// of the user has one destination only, so the suite does not fit it: the tests above are about those.

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
