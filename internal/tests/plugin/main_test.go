package plugin_test

import (
	"log/slog"
	"testing"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// The conformance suite on an exchange of our own is in internal/tests/conformance. An exchange of the
// user has one destination only, so the suite does not fit it: existing_test.go is about those.
func TestMain(m *testing.M) {
	rabbittest.Main(m, rabbit.Options{Plugins: []string{rabbittest.DelayedMessages}})
}

func options(t testing.TB, b *rabbit.Broker) delayer.Options {
	return delayer.Options{
		URL: b.URL(), Logger: slog.New(slog.DiscardHandler),
		Prefix: rabbittest.Prefix(t), QueueType: delayer.Quorum, Connections: 1,
	}
}
