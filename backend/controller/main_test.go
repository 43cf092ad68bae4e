package controller_test

import (
	"log/slog"
	"testing"

	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

// The conformance lanes of all backends are in package backend.
func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

func options(t testing.TB, kind topology.QueueType) engine.Options {
	return engine.Options{
		Broker: broker.Options{URL: rabbittest.Broker(t).URL(), Logger: slog.New(slog.DiscardHandler)},
		Prefix: rabbittest.Prefix(t), QueueType: kind, Connections: 1,
	}
}
