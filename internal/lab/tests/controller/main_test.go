package controller_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// The conformance suite on this backend is in internal/lab/tests/conformance.
func TestMain(m *testing.M) {
	if ok, err := child(); ok {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// What was unroutable comes again after this time. The long campaign of cmd/faults keeps
	// RabbitMQ's three minutes.
	rabbittest.Main(m, rabbit.Options{Args: rabbit.DeadLetterRetry(2 * time.Second)})
}

// options are a Delayer's whose log is the test's, if it fails.
func options(t testing.TB, kind delayer.QueueType) delayer.Options {
	var said rabbittest.Logbook
	said.ShowIfFailed(t, "its Delayers said")
	return delayer.Options{
		URL: rabbittest.Broker(t).URL(), Logger: said.Logger(),
		Prefix: rabbittest.Prefix(t), QueueType: kind, Connections: 1,
	}
}
