package main

import (
	"context"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/outbox"
)

// relay publishes messages of committed orders until ctx ends. Several may run.
func relay(ctx context.Context, c config, _ []string) error {
	pool, err := c.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := backend.Open(ctx, c.delayer)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	r, err := outbox.NewRelay(pool, d, outbox.Config{})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}
