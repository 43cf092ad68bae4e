package main

import (
	"context"
	"errors"

	"github.com/delayer-go/delayer/internal/lab/bench"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// openTarget returns the broker at url, or without a url the one that internal/lab/rabbit finds or
// starts. What a broker at url uses is not known.
func openTarget(ctx context.Context, url string, logf func(string, ...any)) (target bench.Target, release func(), err error) {
	if url != "" {
		logf("processor time and memory are left out: the broker is not ours to measure")
		target, err = bench.Given(ctx, url, "given by --url")
		return target, func() {}, err
	}
	logf("looking for a broker")
	b, err := rabbit.Start(ctx, rabbit.Options{Logf: logf, Plugins: []string{"rabbitmq_delayed_message_exchange"}})
	if err != nil {
		return target, nil, err
	}
	target = bench.Target{
		URL: b.URL(), Product: b.Product(), Version: b.Version(), How: b.How(), Platform: b.Platform(),
		CPU: b.CPU, Memory: b.RSS, Disk: b.Disk,
	}
	if b.Owned() {
		target.Restart = func(ctx context.Context) error { return errors.Join(b.Stop(ctx), b.Run(ctx)) }
	}
	return target, func() { _ = b.Close() }, nil
}
