package main

import (
	"context"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/internal/rabbit"
)

// openBroker returns the broker at url, or, without one, whatever internal/rabbit finds or starts.
func openBroker(
	ctx context.Context, url string, logf func(string, ...any),
) (broker bench.Broker, at string, release func(), err error) {
	if url != "" {
		broker, err = bench.Given(ctx, url, "given by --url")
		return broker, url, func() {}, err
	}
	logf("looking for a broker")
	started, err := rabbit.Start(ctx, rabbit.Options{Logf: logf, Plugins: []string{"rabbitmq_delayed_message_exchange"}})
	if err != nil {
		return nil, "", nil, err
	}
	return started, started.URL(), func() { _ = started.Close() }, nil
}
