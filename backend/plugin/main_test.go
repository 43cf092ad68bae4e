package plugin_test

import (
	"log/slog"
	"testing"

	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

const needed = "rabbitmq_delayed_message_exchange"

// The conformance lane of an exchange of our own is in package backend, beside those of all backends. One of the
// user's has one destination only, and cannot be held to cases about others: existing_test.go is about those.
func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{Plugins: []string{needed}}) }

// withPlugin returns a broker that has the plugin, or skips the test and names it.
func withPlugin(t testing.TB) *rabbit.Broker {
	t.Helper()
	b := rabbittest.Broker(t)
	if !b.HasPlugin(needed) {
		rabbittest.Skipf(t, "the broker has no plugin %s", needed)
	}
	return b
}

func options(t testing.TB, b *rabbit.Broker) engine.Options {
	return engine.Options{
		Broker: broker.Options{URL: b.URL(), Logger: slog.New(slog.DiscardHandler)},
		Prefix: rabbittest.Prefix(t), QueueType: topology.Quorum, Connections: 1,
	}
}
