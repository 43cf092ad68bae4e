package backend_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// The conformance suite on an exchange of our own is in internal/tests/conformance. An exchange of the
// user has one destination only, so the suite does not fit it: plugin_existing_test.go is about those.

// A rig is what a user has of their own: a connection, an exchange and queues, deleted when the test ends.
type rig struct {
	*testing.T
	broker *rabbit.Broker
	conn   *amqp091.Connection
	ch     *amqp091.Channel
	name   string // begins the names of the user's objects
}

func newRig(t *testing.T) *rig {
	b := rabbittest.NeedPlugin(t, rabbittest.DelayedMessages)
	conn, err := amqp091.Dial(b.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(t, err)
	return &rig{t, b, conn, ch, rabbittest.Prefix(t) + "-user"}
}

// exchange declares one; a flag is named in flags.
func (r *rig) exchange(kind string, args amqp091.Table, flags ...string) string {
	r.Helper()
	has := func(flag string) bool {
		for _, f := range flags {
			if f == flag {
				return true
			}
		}
		return false
	}
	require.NoError(r, r.ch.ExchangeDeclare(r.name, kind, !has("transient"), has("auto-delete"), has("internal"), false, args))
	r.Cleanup(func() { r.fresh(func(ch *amqp091.Channel) error { return ch.ExchangeDelete(r.name, false, false) }) })
	return r.name
}

// fresh runs f on a channel of its own.
func (r *rig) fresh(f func(*amqp091.Channel) error) {
	ch, err := r.conn.Channel()
	if err == nil {
		err = f(ch)
	}
	if err != nil {
		r.Errorf("tidying up: %v", err)
	}
}

// queue declares one, bound to the exchange, and returns what arrives there.
func (r *rig) queue(hint, key, exchange string) <-chan amqp091.Delivery {
	r.Helper()
	name := r.name + "-" + hint
	_, err := r.ch.QueueDeclare(name, true, false, false, false, nil)
	require.NoError(r, err)
	r.Cleanup(func() {
		r.fresh(func(ch *amqp091.Channel) error { _, err := ch.QueueDelete(name, false, false, false); return err })
	})
	require.NoError(r, r.ch.QueueBind(name, key, exchange, false, nil))
	deliveries, err := r.ch.Consume(name, "", true, false, false, false, nil)
	require.NoError(r, err)
	return deliveries
}

func (r *rig) open(cfg plugin.Config) delayer.Delayer {
	r.Helper()
	p, err := r.tryOpen(r.options(), cfg)
	require.NoError(r, err)
	r.Cleanup(func() { _ = p.Close() })
	return p
}

func (r *rig) options() delayer.Options { return pluginOptions(r.T, r.broker) }

func (r *rig) tryOpen(opts delayer.Options, cfg plugin.Config) (delayer.Delayer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return plugin.Open(ctx, opts, cfg)
}

// one waits for a delivery.
func (r *rig) one(deliveries <-chan amqp091.Delivery) amqp091.Delivery {
	r.Helper()
	select {
	case d := <-deliveries:
		return d
	case <-time.After(20 * time.Second):
		require.Fail(r, "nothing arrived")
		panic("unreachable")
	}
}

func pluginOptions(t testing.TB, b *rabbit.Broker) delayer.Options {
	return delayer.Options{
		URL: b.URL(), Logger: slog.New(slog.DiscardHandler),
		Prefix: rabbittest.Prefix(t), QueueType: delayer.Quorum, Connections: 1,
	}
}
