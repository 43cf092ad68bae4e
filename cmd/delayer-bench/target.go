package main

import (
	"context"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/internal/rabbit"
)

// openTarget returns the broker at url, or without a url the one that internal/rabbit finds or
// starts. The memory of a broker that is not ours comes from the management API at management, or
// at its default port.
func openTarget(
	ctx context.Context, url, management string, logf func(string, ...any),
) (target bench.Target, at string, release func(), err error) {
	release = func() {}
	if url != "" {
		at = url
		target, err = bench.Given(ctx, url, "given by --url")
	} else {
		logf("looking for a broker")
		var started *rabbit.Broker
		started, err = rabbit.Start(ctx, rabbit.Options{Logf: logf, Plugins: []string{"rabbitmq_delayed_message_exchange"}})
		if err == nil {
			target, at, release = started, started.URL(), func() { _ = started.Close() }
		}
	}
	if err == nil && !target.Owned() {
		target, err = withManagement(ctx, target, at, management, logf)
	}
	return target, at, release, err
}
