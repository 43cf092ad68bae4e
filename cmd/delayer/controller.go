package main

import (
	"context"
	"log/slog"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/cli"
)

// controllerCmd is `delayer controller`.
type controllerCmd struct {
	brokerFlags
}

// Run runs a controller until SIGTERM or Ctrl-C. The exit status is then 0.
func (c *controllerCmd) Run(ctx context.Context, s streams) error {
	cfg, err := c.load()
	if err != nil {
		return failure("controller", err)
	}
	if cfg.Backend == "" {
		cfg.Backend = "controller"
	}
	cfg.Logger = slog.New(slog.NewTextHandler(s.err, nil))
	cfg.Logger.Info("controller starts")
	if err := backend.ServeController(ctx, cfg); err != nil {
		return cli.InterruptedOr(ctx, failure("controller", err))
	}
	cfg.Logger.Info("controller has stopped; the messages that it held are back in the broker")
	return nil
}
