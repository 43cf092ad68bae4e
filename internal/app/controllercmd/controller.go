// Package controllercmd runs a controller, and asks a command that listens whether it is well:
// delayer controller and health.
package controllercmd

import (
	"context"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/service"
)

// Controller is `delayer controller`.
type Controller struct {
	service.Flags
	flags.Broker
}

// Run runs a controller until SIGTERM or Ctrl-C. The exit status is then 0.
func (c *Controller) Run(ctx context.Context, s cli.Streams) error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	if cfg.Backend == "" {
		cfg.Backend = "controller"
	}
	running, err := c.Start(ctx, s.Err)
	if err != nil {
		return err
	}
	defer running.Close()
	running.Configure(&cfg)
	running.Log.Info("controller starts")
	if err := backend.ServeController(ctx, cfg); err != nil {
		return err
	}
	running.Log.Info("controller has stopped; the messages that it held are back in the broker")
	return nil
}
