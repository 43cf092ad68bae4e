package main

import (
	"context"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// openTarget returns the broker at url, or without a url the one that internal/lab/rabbit finds or
// starts. The memory of a broker that is not ours comes from the management API at management, or
// at its default port.
func openTarget(
	ctx context.Context, url, management string, logf func(string, ...any),
) (target bench.Target, release func(), err error) {
	release = func() {}
	if url != "" {
		target, err = bench.Given(ctx, url, "given by --url")
	} else {
		logf("looking for a broker")
		var b *rabbit.Broker
		b, err = rabbit.Start(ctx, rabbit.Options{Logf: logf, Plugins: []string{"rabbitmq_delayed_message_exchange"}})
		if err == nil {
			release = func() { _ = b.Close() }
			target = bench.Target{
				URL: b.URL(), Product: b.Product(), Version: b.Version(), How: b.How(), Platform: b.Platform(),
				CPU: b.CPU, Memory: b.RSS, Disk: b.Disk, Written: b.Written,
			}
			if b.Owned() {
				target.Stop, target.Kill, target.Start = b.Stop, b.Kill, b.Run
			}
		}
	}
	if err == nil && target.Start == nil {
		err = addManagement(ctx, &target, management, logf)
	}
	return target, release, err
}
