package main

import (
	"context"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/cli"
)

// controllerCmd is `delayer controller`.
type controllerCmd struct {
	serviceFlags
	brokerFlags
}

// Run runs a controller until SIGTERM or Ctrl-C. The exit status is then 0.
func (c *controllerCmd) Run(ctx context.Context, s streams) error {
	if err := c.run(ctx, s); err != nil {
		return cli.InterruptedOr(ctx, failure("controller", err))
	}
	return nil
}

func (c *controllerCmd) run(ctx context.Context, s streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if cfg.Backend == "" {
		cfg.Backend = "controller"
	}
	service, err := c.start(ctx, s.err)
	if err != nil {
		return err
	}
	defer service.close()
	service.configure(&cfg)
	service.log.Info("controller starts")
	if err := backend.ServeController(ctx, cfg); err != nil {
		return err
	}
	service.log.Info("controller has stopped; the messages that it held are back in the broker")
	return nil
}
