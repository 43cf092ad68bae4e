// Package satellites_test tests on a broker, and on PostgreSQL, what is built on a Delayer:
// packages retry and gorabbitmq, outbox, once, and watermilldelay with Watermill's own suite. They
// share a broker and a database server, which take longer to start than most of the tests.
package satellites_test

import (
	"log/slog"
	"testing"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMain(m *testing.M) {
	rabbittest.Main(m, rabbit.Options{Plugins: []string{rabbittest.DelayedMessages}}, suiteLeaves...)
}

var silent = slog.New(slog.DiscardHandler)
