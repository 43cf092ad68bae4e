package controller_test

import (
	"log/slog"
	"testing"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// The conformance suite on this backend is in internal/tests/conformance.
func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

func options(t testing.TB, kind delayer.QueueType) delayer.Options {
	return delayer.Options{
		URL: rabbittest.Broker(t).URL(), Logger: slog.New(slog.DiscardHandler),
		Prefix: rabbittest.Prefix(t), QueueType: kind, Connections: 1,
	}
}
